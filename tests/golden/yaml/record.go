// Command record says what an API server makes of YAML: the JSON that sigs.k8s.io/yaml converts it to, or its error.
//
//	cd tests/control_plane && go run ../golden/yaml/record.go < ../golden/yaml/asked.jsonl > ../golden/yaml/recorded.jsonl
//
// Asked: a JSON string with a YAML document in each line. Recorded: {"yaml": ..., "json": ...} or {"yaml": ..., "error": ...}.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

type line struct {
	YAML  string          `json:"yaml"`
	JSON  json.RawMessage `json:"json,omitempty"`
	Error string          `json:"error,omitempty"`
}

func main() {
	asked := bufio.NewScanner(os.Stdin)
	recorded := json.NewEncoder(os.Stdout)
	recorded.SetEscapeHTML(false)
	for asked.Scan() {
		var one line
		if err := json.Unmarshal(asked.Bytes(), &one.YAML); err != nil {
			panic(err)
		}
		converted, err := yaml.YAMLToJSON([]byte(one.YAML))
		if err != nil {
			one.Error = err.Error()
		} else {
			one.JSON = converted
		}
		if err := recorded.Encode(one); err != nil {
			panic(err)
		}
	}
}
