package shellparse

// The limits of a walk, beside those that package source has for one text. What goes over
// one of them is refused with the limit named; no check is ever left out because of it.
const (
	maxNested = 8       // shells within shells
	maxText   = 1 << 20 // bytes of all values that parameters put into words
	maxSteps  = 25_000  // statements walked, loops and functions followed
	maxVars   = 1_000   // variables that are tracked; more are unknown
	maxNames  = 250     // functions, and exported names
	maxBraces = 1_000   // words of one brace expansion
	maxUnroll = 16      // items of a loop that are followed one by one

	maxDeletes = 2_000 // names that commands delete or move, each with facts of its own for policies
)
