package child

import (
	"net/netip"
	"testing"
)

// TestTheAddressThatWasNotUsedForLongestIsGivenUp: not the one that came first.
func TestTheAddressThatWasNotUsedForLongestIsGivenUp(t *testing.T) {
	n := &network{listening: map[netip.AddrPort]uint64{}}
	if got := n.oldest(); got.IsValid() {
		t.Errorf("of none it is %v", got)
	}
	at := func(i byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, i}), 80) }
	for _, i := range []byte{1, 2, 3, 4, 1, 3} {
		n.use(at(i))
	}
	if got := n.oldest(); got != at(2) {
		t.Errorf("got %v, want %v", got, at(2))
	}
}
