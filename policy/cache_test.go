package policy

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"pgregory.net/rapid"
)

// TestTheCacheAnswersAsTheEnginesOwn: any history of results, also more than are
// found by a scan.
func TestTheCacheAnswersAsTheEnginesOwn(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	rapid.Check(t, func(rt *rapid.T) {
		ours, theirs := topdown.VirtualCache(newCache()), topdown.NewVirtualCache()
		drawRef := func() ast.Ref {
			ref := ast.Ref{ast.DefaultRootDocument}
			for range rapid.IntRange(1, 4).Draw(rt, "words") {
				ref = append(ref, ast.StringTerm(word.Draw(rt, "word")))
			}
			return ref
		}
		put := []map[string]bool{{}} // per frame
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				ours.Push()
				theirs.Push()
				put = append(put, map[string]bool{})
			case 1:
				if len(put) > 1 {
					ours.Pop()
					theirs.Pop()
					put = put[:len(put)-1]
				}
			case 2, 3, 4, 5:
				ref := drawRef()
				seen := put[len(put)-1]
				if seen[ref.String()] {
					continue // a rule is evaluated once
				}
				seen[ref.String()] = true
				var value *ast.Term
				if rapid.Bool().Draw(rt, "defined") {
					value = ast.StringTerm(ref.String())
				}
				ours.Put(ref, value)
				theirs.Put(ref, value)
			default:
				ref := drawRef()
				v, undefined := ours.Get(ref)
				w, wantUndefined := theirs.Get(ref)
				if v != w || undefined != wantUndefined {
					rt.Fatalf("%s: %v, %v; want %v, %v", ref, v, undefined, w, wantUndefined)
				}
			}
			if got, want := len(ours.Keys()), len(theirs.Keys()); got != want {
				rt.Fatalf("%d keys, want %d", got, want)
			}
		}
	})
}
