package jsonout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/jsonout"
)

func Example() {
	err := jsonout.Write(os.Stdout, map[string]any{"data": []string{"a", "<b>"}})
	fmt.Println(err)
	// Output: {"data":["a","<b>"]}<nil>
}

type word string

type inner struct {
	A int    `json:"a"`
	B string `json:"b,omitempty"`
}

type Shown struct {
	C []byte    `json:"c"`
	D time.Time `json:"d,omitzero"`
}

// zoo has every kind of field that the daemon's types have, and some more.
type zoo struct {
	inner
	*Shown
	Named   inner            `json:"named"`
	Tagged  Shown            `json:"tagged,omitzero"`
	Pointer *inner           `json:"pointer,omitempty"`
	None    *inner           `json:"none"`
	Map     map[string]any   `json:"map,omitempty"`
	Words   map[word]float64 `json:"words"`
	Ints    map[int]bool     `json:"ints"`
	List    []inner          `json:"list"`
	Empty   []string         `json:"empty,omitempty"`
	Any     any              `json:"any"`
	Raw     json.RawMessage  `json:"raw"`
	Time    time.Time        `json:"time"`
	Long    time.Duration    `json:"long"`
	Float   float64          `json:"float"`
	Small   uint8            `json:"small"`
	Flag    bool             `json:"flag,omitempty"`
	Array   [2]word          `json:"array"`
	Plain   string
	Hidden  string `json:"-"`
	//lint:ignore SA5008 encoding/json reads it as the name "-", so that is what is tested
	Dash    string      `json:"-,"`
	Number  json.Number `json:"number"`
	private string
}

// What Write writes is what Marshal returns without escapes for HTML, byte for byte.
func TestAsMarshal(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"<&>\u2028\u2029", "\x00\x1f\x7f\b\f\n\r\t\"\\", strings.Repeat("é\u0001", 20_000)}))
	value := rapid.Deferred(func() *rapid.Generator[any] { return values(text) })
	rapid.Check(t, func(t *rapid.T) {
		z := zoo{
			inner: inner{rapid.Int().Draw(t, "a"), text.Draw(t, "b")}, private: "never", Hidden: "never",
			Named: inner{B: text.Draw(t, "named")}, Words: map[word]float64{word(text.Draw(t, "w")): rapid.Float64().Draw(t, "x")},
			Any: value.Draw(t, "any"), Raw: json.RawMessage(`{"a":[1,2.50,"x"]}`), Plain: text.Draw(t, "plain"),
			Long: time.Duration(rapid.Int64().Draw(t, "long")), Small: rapid.Uint8().Draw(t, "small"), Number: "1.50",
			Flag: rapid.Bool().Draw(t, "flag"), Array: [2]word{"a", word(text.Draw(t, "array"))}, Dash: text.Draw(t, "dash"),
		}
		if rapid.Bool().Draw(t, "more") {
			z.Shown = &Shown{C: []byte(text.Draw(t, "c")), D: time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "d"), 0)}
			z.Tagged, z.Pointer, z.List = *z.Shown, &z.Named, []inner{z.Named, {}}
			z.Map = map[string]any{text.Draw(t, "k"): value.Draw(t, "v"), "": &z.Named}
			z.Ints, z.Empty = map[int]bool{3: true, -1: false}, []string{}
		}
		for _, v := range []any{z, &z, z.Any, []any{z.Any, z.Pointer, nil}} {
			same(t, v)
		}
	})
}

func values(text *rapid.Generator[string]) *rapid.Generator[any] {
	leaf := rapid.OneOf(text.AsAny(), rapid.Int().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(),
		rapid.Just[any](nil))
	return rapid.OneOf(leaf, rapid.SliceOfN(leaf, 0, 4).AsAny(), rapid.MapOfN(text, leaf, 0, 4).AsAny())
}

// marshalled is what Marshal returns, without the escapes for HTML.
func marshalled(t rapid.TB, v any) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func same(t *rapid.T, v any) {
	want := marshalled(t, v)
	var got bytes.Buffer
	if err := jsonout.Write(&got, v); err != nil || got.String() != want {
		t.Fatalf("got  %s, %v\nwant %s", &got, err, want)
	}
}

// A text in pieces is the text; an error in it is returned.
func TestATextInPieces(t *testing.T) {
	pieces := func(fails error) jsonout.Text {
		return func(yield func(string, error) bool) {
			_ = yield("a<", nil) && yield("", nil) && yield("\u2028é", nil) && fails != nil && yield("", fails)
		}
	}
	var got bytes.Buffer
	err := jsonout.Write(&got, struct {
		V jsonout.Text `json:"v"`
	}{pieces(nil)})
	if want := `{"v":"a<\u2028é"}`; err != nil || got.String() != want {
		t.Errorf("got %s, %v, want %s", &got, err, want)
	}
	got.Reset()
	no := errors.New("no")
	if err := jsonout.Write(&got, pieces(no)); !errors.Is(err, no) || got.Len() > 0 {
		t.Errorf("got %v and %q, want the error alone", err, &got)
	}
}

// What is written is one line: events are told apart by theirs.
func TestWhatIsWrittenIsOneLine(t *testing.T) {
	var got bytes.Buffer
	err := jsonout.Write(&got, map[string]any{"a": json.RawMessage("{\n  \"b\": \"c\\n\"\n}"), "d": "e\nf\r\u2028"})
	if want := `{"a":{"b":"c\n"},"d":"e\nf\r\u2028"}`; err != nil || got.String() != want {
		t.Errorf("got %s, %v, want %s", &got, err, want)
	}
}

// What Marshal cannot encode is an error here too.
func TestWhatCannotBeEncoded(t *testing.T) {
	for name, v := range map[string]any{
		"a number that is none":     math.Inf(1),
		"a channel":                 make(chan int),
		"a message that is no JSON": json.RawMessage(`{"a":`),
		"a type that fails":         failing{},
		"it lies deep":              map[string]any{"a": []any{1, failing{}}},
	} {
		if err := jsonout.Write(&bytes.Buffer{}, v); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

// An error of the writer is returned, and a large value is not walked to its end for it.
func TestAnErrorOfTheWriterIsReturned(t *testing.T) {
	w := &broken{}
	if err := jsonout.Write(w, strings.Repeat("x", 1<<20)); err == nil || w.calls > 1 {
		t.Errorf("got %v after %d writes", err, w.calls)
	}
}

type broken struct{ calls int }

func (b *broken) Write([]byte) (int, error) {
	b.calls++
	return 0, errors.New("closed")
}

// A long text is never held in another form: six bytes for each of its own would be.
func TestALongTextTakesNoMemory(t *testing.T) {
	v := map[string]any{"value": strings.Repeat("\x01", 16<<20)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	if err := jsonout.Write(counter{&n}, v); err != nil || n != 6*16<<20+len(`{"value":""}`) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("it took %d bytes", grown)
	}
}

type counter struct{ n *int }

func (c counter) Write(b []byte) (int, error) {
	*c.n += len(b)
	return len(b), nil
}

// TestEachByteAtEachPlace: text is looked at eight bytes at a time.
func TestEachByteAtEachPlace(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			text := []byte(strings.Repeat("x ~!", 5))
			text[at] = byte(c)
			want := marshalled(t, string(text))
			var got bytes.Buffer
			if err := jsonout.Write(&got, string(text)); err != nil || got.String() != want {
				t.Fatalf("%q: got %s, %v, want %s", text, &got, err, want)
			}
		}
	}
}
