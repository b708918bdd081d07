package spread

// Deliveries that start together to one destination, with entries of one size,
// also end together, and so do those that follow them: all its slots come free
// at one moment and then none for as long as a delivery takes. Small mail that
// could overtake has to wait for that moment. With 20 deliveries of half a
// second each it waits a quarter of a second on average, where a slot could have
// come free every 25 ms.
//
// So the entries of such a first volley are cut to different sizes: a small part
// of what a transaction may carry for the one, more for the next. From then on
// the slots come free one after the other, and every entry has its full size.
// Postfix does not do this; there the time it takes to start processes has some
// of the same effect.

// A window that has just grown starts two deliveries at once, which is no volley;
// and entries of a few recipients are not worth the further transactions.
const (
	volleyMin  = 2  // deliveries that start before the first one is cut
	staggerMin = 10 // recipients that a transaction may carry
)

// A Volley is the number of deliveries to a destination that have started since the last one ended.
type Volley int

// Start counts one more, of an entry with n recipients, to a destination whose window is so wide and where so many entries wait. It
// returns how many recipients the entry keeps; what is cut off waits in front. A transaction may carry full recipients, any number if that is
// 0 or less.
func (v *Volley) Start(n, full, width, waiting int) int {
	place := int(*v)
	*v++
	if full <= 0 {
		full = n
	}
	if place < volleyMin || waiting <= width || full < staggerMin || place%width == 0 {
		return n
	}
	return min(max(full*(place%width)/width, 1), n)
}

// Ended begins anew: a delivery has ended.
func (v *Volley) Ended() { *v = 0 }
