package sim

import "time"

// A Series is what happened over time, in points of equal length. The zero
// Series is empty.
type Series struct {
	Step   time.Duration // length of a point
	Points []Point
	hosts  int // how many are followed
	groups int // classes of arrival whose connections are followed
	shares int // classes of arrival whose deliveries are followed
	from   int // sources whose deliveries are followed
}

// A Point is what happened in a piece of time.
type Point struct {
	Attempts    int     // that ended
	Failures    int     // of them, site failures
	Deferred    int     // recipients
	Delivered   int     // recipients
	Connections int     // the most at once
	Lookups     int     // the most at once
	Waiting     int     // recipients not settled at its beginning
	Hosts       []int   // connections to each host, the most at once; nil if there is one, or too many
	Classes     []int   // connections that carry something of each class of arrival, the most at once; nil if there is one class, or agents
	Starts      []int   // deliveries of each class of arrival that began; nil if no mail belongs to a flow, or if there are too many classes
	Sources     []int   // deliveries from each source that began, in the order of the configuration; nil without sources, or with too many
	WindowSum   float64 // of the windows in force when attempts ended
	Windows     int     // how many these were
	WindowMin   int
	WindowMax   int
}

// seriesMax is how many points there are at most. When there would be more, two
// become one: so a run of any length has between half as many and all.
const (
	seriesMax   = 1000
	seriesFirst = 10 * time.Millisecond
)

// at returns the point of a time since the start. Times do not decrease. Points in
// which nothing has happened are as blank says.
func (s *Series) at(since time.Duration, blank Point) *Point {
	if s.Step == 0 {
		s.Step = seriesFirst
	}
	n := int(since / s.Step)
	for n >= seriesMax {
		s.halve()
		n = int(since / s.Step)
	}
	for len(s.Points) <= n {
		s.Points = append(s.Points, blank)
	}
	return &s.Points[n]
}

// halve makes one point of each two.
func (s *Series) halve() {
	s.Step *= 2
	half := s.Points[:0]
	for i := 0; i < len(s.Points); i += 2 {
		p := s.Points[i]
		if i+1 < len(s.Points) {
			p.Join(&s.Points[i+1])
		}
		half = append(half, p)
	}
	s.Points = half
}

// isBlank reports whether nothing is in the point that is followed one by one.
func (p *Point) isBlank() bool {
	return p.Hosts == nil && p.Classes == nil && p.Starts == nil && p.Sources == nil
}

// Join adds what happened in a later piece of time.
func (p *Point) Join(o *Point) {
	p.Attempts += o.Attempts
	p.Failures += o.Failures
	p.Deferred += o.Deferred
	p.Delivered += o.Delivered
	p.Connections = max(p.Connections, o.Connections)
	p.Lookups = max(p.Lookups, o.Lookups)
	for i := range o.Hosts {
		p.Hosts[i] = max(p.Hosts[i], o.Hosts[i])
	}
	for i := range o.Classes {
		p.Classes[i] = max(p.Classes[i], o.Classes[i])
	}
	for i := range o.Starts {
		p.Starts[i] += o.Starts[i]
	}
	for i := range o.Sources {
		p.Sources[i] += o.Sources[i]
	}
	switch {
	case o.Windows == 0:
	case p.Windows == 0:
		p.WindowMin, p.WindowMax = o.WindowMin, o.WindowMax
	default:
		p.WindowMin, p.WindowMax = min(p.WindowMin, o.WindowMin), max(p.WindowMax, o.WindowMax)
	}
	p.WindowSum += o.WindowSum
	p.Windows += o.Windows
}

// window counts a window's size.
func (p *Point) window(size int) {
	if p.Windows == 0 {
		p.WindowMin, p.WindowMax = size, size
	}
	p.WindowMin, p.WindowMax = min(p.WindowMin, size), max(p.WindowMax, size)
	p.WindowSum += float64(size)
	p.Windows++
}
