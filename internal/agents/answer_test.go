package agents

import "testing"

// TestN05_AnAnswerHasEachFieldOnce: two readers of one that has a field twice could understand it differently.
func TestN05_AnAnswerHasEachFieldOnce(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"text":"a","is_error":true}`:                  true,
		` {"text":"a"} ` + "\n":                         true,
		`{"text":"a","is_error":true,"is_error":false}`: false,
		`{"text":"a","text":"b"}`:                       false,
		`{"text":"a","Text":"b"}`:                       false,
		`{"text":"a","is_error":true,"IS_ERROR":false}`: false,
		`{"text":"a"}{"text":"b"}`:                      false,
		`{"text":"a"} more`:                             false,
		`{"text":"a","other":1}`:                        false,
		`{"is_error":true}`:                             false,
		"{\"text\":\"\xff\"}":                           false,
		``:                                              false,
	} {
		if a, err := read([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: got %+v, %v", text, a, err)
		}
	}
}
