package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram has classic buckets for every scraper and native ones for those that
// understand them, bounded in number and in age.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}
