package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram returns a histogram with classic buckets for every scraper and native ones for scrapers that support
// them. Native buckets are bounded in number and age.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}
