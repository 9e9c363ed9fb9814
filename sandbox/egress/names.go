package egress

import (
	"crypto/sha256"
	"net/netip"
	"sync"
)

const (
	maxNames = 16 << 10 // of one network: about 6 MiB at most
	probes   = 64       // at most a quarter of the addresses is taken: so all probes fail with a chance of 4^-64
)

// names are the synthetic addresses of one network, all in 198.18.0.0/16. An address is
// never given to a second name: programs keep addresses, and would send to one host what is
// meant for another.
type names struct {
	mu     sync.Mutex // guards both
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
}

func newNames() *names {
	return &names{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{}}
}

// address is that of a canonical name, a new one if the name is new. It reports false if
// there is no room.
func (t *names) address(name string) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.byName[name]; ok {
		return a, true
	}
	if len(t.byName) >= maxNames {
		return netip.Addr{}, false
	}
	for i := range byte(probes) {
		sum := sha256.Sum256(append([]byte{i}, name...))
		// Some programs take a last byte of 0 or 255 for a network or a broadcast.
		a := netip.AddrFrom4([4]byte{198, 18, sum[0], 1 + sum[1]%254})
		if _, taken := t.byAddr[a]; !taken {
			t.byName[name], t.byAddr[a] = a, name
			return a, true
		}
	}
	return netip.Addr{}, false
}

// name returns whose address it is.
func (t *names) name(a netip.Addr) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.byAddr[a.Unmap()]
	return name, ok
}
