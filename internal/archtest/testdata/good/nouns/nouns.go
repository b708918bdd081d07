package nouns

// A Noun is one.
type Noun int

// One, Two and Three need no comment each.
const (
	One Noun = iota
	Two
	Three
)
