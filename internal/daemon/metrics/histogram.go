package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/posthaste-mta/posthaste/internal/histogram"
)

// A shown is a histogram as Prometheus gets it: with all its classes as a native histogram, and
// with a few buckets for those who do not read these. The library can make only one of the two from counts
// that it has not made itself.
type shown struct {
	desc   *prometheus.Desc
	values *histogram.Values
	powers []int
	labels []*dto.LabelPair
}

// newHistogram returns the metric of a histogram; the upper bounds of its buckets are powers of
// two.
func newHistogram(desc *prometheus.Desc, v *histogram.Values, powers []int, labels []string) prometheus.Metric {
	return &shown{desc, v, powers, prometheus.MakeLabelPairs(desc, labels)}
}

// Desc implements prometheus.Metric.
func (s *shown) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *shown) Write(to *dto.Metric) error {
	v := s.values
	h := &dto.Histogram{
		SampleCount: proto.Uint64(v.Count), SampleSum: proto.Float64(v.Sum),
		Schema: proto.Int32(histogram.Schema), ZeroThreshold: proto.Float64(histogram.Threshold), ZeroCount: proto.Uint64(v.Zero),
	}
	for _, power := range s.powers {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(math.Exp2(float64(power))), CumulativeCount: proto.Uint64(v.UpTo(power))})
	}
	h.PositiveSpan, h.PositiveDelta = spans(v.Classes)
	if len(h.PositiveSpan) == 0 {
		// An empty span says that it is a native histogram although it has no class yet.
		h.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
	to.Histogram, to.Label = h, s.labels
	return nil
}

// spans returns the classes that are not empty: runs of them, each with the distance to the one
// before, and the difference of each count to the one before.
func spans(classes []uint64) (list []*dto.BucketSpan, deltas []int64) {
	var before int64
	next := 0 // the index after that of the last class in list
	for i, n := range classes {
		if n == 0 {
			continue
		}
		index := histogram.Index(i)
		if len(list) == 0 || index != next {
			list = append(list, &dto.BucketSpan{Offset: proto.Int32(int32(index - next)), Length: proto.Uint32(0)})
		}
		*list[len(list)-1].Length++
		deltas = append(deltas, int64(n)-before)
		before, next = int64(n), index+1
	}
	return list, deltas
}
