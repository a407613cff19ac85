// Command record says what Go's regexp makes of patterns, which is what an API server makes of them:
//
//	go run record.go < asked.jsonl > recorded.jsonl
//
// Asked: {"pattern": ..., "texts": [...]} in each line. Recorded: the same with "error", or with what is "found" in each
// text, null where nothing is.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
)

type line struct {
	Pattern string    `json:"pattern"`
	Texts   []string  `json:"texts"`
	Error   string    `json:"error,omitempty"`
	Found   []*string `json:"found,omitempty"`
}

func main() {
	asked := bufio.NewScanner(os.Stdin)
	recorded := json.NewEncoder(os.Stdout)
	recorded.SetEscapeHTML(false)
	for asked.Scan() {
		var one line
		if err := json.Unmarshal(asked.Bytes(), &one); err != nil {
			panic(err)
		}
		pattern, err := regexp.Compile(one.Pattern)
		if err != nil {
			one.Error = err.Error()
		} else {
			for _, text := range one.Texts {
				var found *string
				if at := pattern.FindStringIndex(text); at != nil {
					part := text[at[0]:at[1]]
					found = &part
				}
				one.Found = append(one.Found, found)
			}
		}
		if err := recorded.Encode(one); err != nil {
			panic(err)
		}
	}
}
