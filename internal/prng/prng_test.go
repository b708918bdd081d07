package prng

import (
	"math"
	"testing"
	"time"
)

// The authors' test vectors: the generator must be the published one, since traces
// of other releases must replay with it.
func TestPublishedVectors(t *testing.T) {
	r := Source{s: [4]uint64{1, 2, 3, 4}}
	for i, want := range []uint64{
		41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205,
		9973669472204895162, 14011001112246962877, 12406186145184390807, 15849039046786891736, 10450023813501588000,
	} {
		if got := r.Uint64(); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
	seeded := New(1234567)
	for i, want := range []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
	} {
		if seeded.s[i] != want {
			t.Errorf("word %d of the seeded state is %d, want %d", i, seeded.s[i], want)
		}
	}
}

// These were printed by this package once. If they change, every recorded
// trace with a random choice in it stops replaying.
func TestNumbersNeverChange(t *testing.T) {
	r := New(42)
	got := []int64{
		int64(r.IntN(10)), int64(r.IntN(1000)), int64(r.IntN(math.MaxInt32)),
		int64(r.Between(time.Second, time.Minute)), int64(r.Between(-5, 5)),
	}
	want := []int64{8, 318, 2112896636, 42367000290, 3}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("numbers are %v, want %v", got, want)
		}
	}
}

// Every number must be as likely as any other. 1,000 draws for each of a few
// values vary by ±32 (one standard deviation); 6 deviations never happen.
func TestIntNIsUniform(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 10, 100} {
		r := New(uint64(n))
		counts := make([]int, n)
		for range 1000 * n {
			counts[r.IntN(n)]++
		}
		for v, c := range counts {
			if math.Abs(float64(c-1000)) > 6*math.Sqrt(1000) {
				t.Errorf("IntN(%d) gave %d %d times in %d", n, v, c, 1000*n)
			}
		}
	}
}

// With n = 3·2⁶² a quarter of all draws is rejected. A method that forgot to do
// so would give every third number twice as often as the others.
func TestUint64NRejects(t *testing.T) {
	r := New(7)
	const n = 1<<63 + 1<<62
	multiples := 0
	for range 10_000 {
		v := r.Uint64N(n)
		if v >= n {
			t.Fatalf("%d is not below %d", v, uint64(n))
		}
		if v%3 == 0 {
			multiples++
		}
	}
	if multiples < 3333-300 || multiples > 3333+300 {
		t.Errorf("%d of 10000 are multiples of 3, want about 3333", multiples)
	}
}

// Jitter and fault rates use these; their edges are what a configuration of
// 0 and 100 % comes to.
func TestPermilleAndBetween(t *testing.T) {
	r := New(3)
	hits := 0
	for range 100_000 {
		if r.Permille(0) || r.Permille(-1) || !r.Permille(1000) {
			t.Fatal("0 happened, or 1000 did not")
		}
		if r.Permille(250) {
			hits++
		}
		if d := r.Between(time.Second, time.Second+2); d < time.Second || d > time.Second+2 {
			t.Fatalf("%v is out of range", d)
		}
	}
	if hits < 24_000 || hits > 26_000 {
		t.Errorf("250 in 1000 happened %d times in 100000", hits)
	}
	if d := r.Between(5, 5); d != 5 {
		t.Errorf("between 5 and 5 is %d", d)
	}
	r.Between(math.MinInt64, math.MaxInt64)
}

// A copy of the core must make the same choices as the original.
func TestCopyGoesOnAlike(t *testing.T) {
	a := New(99)
	a.Uint64()
	b := a
	for range 10 {
		if a.Uint64() != b.Uint64() {
			t.Fatal("the copy gave another number")
		}
	}
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(r *Source){
		"none":     func(r *Source) { r.IntN(0) },
		"negative": func(r *Source) { r.IntN(-3) },
		"backward": func(r *Source) { r.Between(2, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r := New(1)
			f(&r)
		})
	}
}

func BenchmarkUint64(b *testing.B) {
	r := New(1)
	for b.Loop() {
		r.Uint64()
	}
}

func BenchmarkIntN(b *testing.B) {
	r := New(1)
	for b.Loop() {
		r.IntN(1000)
	}
}
