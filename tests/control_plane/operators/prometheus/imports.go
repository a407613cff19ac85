// Package prometheus pins the Go types that the CRDs of the Prometheus operator are made from.
package prometheus

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
