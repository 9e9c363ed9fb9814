package egress

// watch is what has to end when a verdict does. Connections of one verdict share it.
type watch struct {
	quit   chan struct{}
	ending map[*func()]struct{}
}

// watch calls end once if what was allowed is forbidden; stop takes it back.
func (c *Call) watch(ended <-chan struct{}, end func()) (stop func()) {
	if ended == nil {
		return func() {}
	}
	key := &end
	c.mu.Lock()
	w := c.watches[ended]
	if w == nil {
		w = &watch{quit: make(chan struct{}), ending: map[*func()]struct{}{}}
		c.watches[ended] = w
		go c.await(ended, w)
	}
	w.ending[key] = struct{}{}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, there := w.ending[key]; !there {
			return
		}
		delete(w.ending, key)
		if len(w.ending) == 0 {
			close(w.quit)
			delete(c.watches, ended)
		}
	}
}

// await waits for the end of one verdict, and then ends the connections that depend on it. It returns earlier when the
// last of them is gone. One await runs for each verdict that has connections.
func (c *Call) await(ended <-chan struct{}, w *watch) {
	select {
	case <-w.quit:
		return
	case <-ended:
	}
	c.mu.Lock()
	ending := w.ending
	w.ending = nil
	if c.watches[ended] == w {
		delete(c.watches, ended)
	}
	c.mu.Unlock()
	for end := range ending {
		(*end)()
	}
}
