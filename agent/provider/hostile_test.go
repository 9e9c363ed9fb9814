package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A text of a server is hidden and then cut: else the cut leaves the begin of the key.
func TestL05_NoPartOfTheKeyIsLeftWhereATextIsCut(t *testing.T) {
	for before := range maxErrorText + 10 {
		quoted, _ := json.Marshal(strings.Repeat("x", before) + " " + key)
		said := `{"type":"authentication_error","message":` + string(quoted) + `}`
		for provider, text := range map[string]string{
			"anthropic": "event: error\ndata: {\"type\":\"error\",\"error\":" + said + "}\n\n",
			"openai":    chunks(`{"error":` + said + `}`),
		} {
			if before%7 != 0 && before < maxErrorText-100 {
				continue // only the place of the cut matters
			}
			c, _, _ := serve(t, provider, stream(text))
			_, err := c.Send(t.Context(), Request{})
			if err == nil || strings.Contains(err.Error(), key[:4]) {
				t.Fatalf("%s, %d before: %v", provider, before, err)
			}
			c, _, _ = serve(t, provider, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"error":`+strings.ReplaceAll(said, "/", `\/`)+`}`, http.StatusUnauthorized)
			})
			if _, err = c.Send(t.Context(), Request{}); err == nil || strings.Contains(err.Error(), key[:4]) {
				t.Fatalf("%s, %d before, 401: %v", provider, before, err)
			}
		}
	}
}

// endless writes a unit until the client has left.
func endless(before, unit string, wrote *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(before)(w, r)
		unit := strings.Repeat(unit, 1+(64<<10)/len(unit))
		for wrote.Load() < 4*maxAnswer {
			n, err := io.WriteString(w, unit)
			wrote.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

func TestAnAnswerWithoutAnEndIsGivenUp(t *testing.T) {
	open := events(hello[:2]...)
	for name, unit := range map[string]string{
		"one event of many lines": "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
		"comments":                ": xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
		"pings":                   events(`{"type":"ping","filler":"` + strings.Repeat("x", 4000) + `"}`),
		"text": events(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` +
			strings.Repeat("x", 4000) + `"}}`),
	} {
		var wrote atomic.Int64
		c, _, _ := serve(t, "anthropic", endless(open, unit, &wrote))
		_, err := c.Send(t.Context(), Request{})
		if e, ok := err.(*Error); !ok || !e.Again {
			t.Errorf("%s: %v", name, err)
		}
		c.(server).http.CloseIdleConnections()
		if wrote.Load() >= 4*maxAnswer {
			t.Errorf("%s: all %d bytes were read", name, wrote.Load())
		}
	}
}

func TestAnAnswerHasABoundOfCalls(t *testing.T) {
	answer := func(n int) string {
		lines := hello[:1:1]
		for i := range n {
			lines = append(lines,
				fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"a","name":"T"}}`, i),
				fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
		}
		return events(append(lines, hello[6:]...)...)
	}
	c, _, _ := serve(t, "anthropic", stream(answer(maxBlocks)))
	if got, err := c.Send(t.Context(), Request{}); err != nil || len(got.Content.Calls()) != maxBlocks {
		t.Errorf("at the bound: %d calls, %v", len(got.Content), err)
	}
	c, _, _ = serve(t, "anthropic", stream(answer(maxBlocks+1)))
	if got, err := c.Send(t.Context(), Request{}); err == nil || len(got.Content) != 0 {
		t.Errorf("above the bound: %d calls, %v", len(got.Content), err)
	}
}

// What a server sends is read once. Blocks within blocks were read once for each level, which
// took minutes for this, and signatures were copied with each part.
func TestWhatAServerSendsIsReadOnce(t *testing.T) {
	const levels = 4000
	deep := `{"type":"content_block_start","index":0,"content_block":` + strings.Repeat(`{"type":"text","content":[`, levels) +
		`"` + strings.Repeat("x", 4<<20) + `"` + strings.Repeat("]}", levels) + `}`
	lines := append([]string{hello[0], deep}, hello[3:]...)
	c, _, _ := serve(t, "anthropic", stream(events(lines...)))
	if got, err := c.Send(t.Context(), Request{}); err != nil || got.Content.Text() != "hello" {
		t.Errorf("deep: %v, %v", got, err)
	}
	lines = []string{hello[0], `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","signature":"s"}}`}
	part := `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + strings.Repeat("x", 1000) + `"}}`
	for range 2500 {
		lines = append(lines, part)
	}
	lines = append(append(lines, hello[5]), strings.ReplaceAll(hello[1], `"index":0`, `"index":1`),
		strings.ReplaceAll(hello[3], `"index":0`, `"index":1`), strings.ReplaceAll(hello[5], `"index":0`, `"index":1`), hello[6], hello[7])
	c, _, _ = serve(t, "anthropic", stream(events(lines...)))
	got, err := c.Send(t.Context(), Request{})
	if err != nil || len(got.Content) != 2 || len(got.Content[0].Signature) != 2_500_001 {
		t.Errorf("signatures: %d blocks, %v", len(got.Content), err)
	}
}
