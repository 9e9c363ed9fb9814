package tool

import "encoding/json"

// Decode decodes arguments that the pipeline has checked against the schema. Some pass it and cannot
// be read all the same, such as a number that no int holds.
func Decode[T any](in In) (T, error) {
	var args T
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return args, &Error{
			Code: "invalid_arguments", Msg: "the arguments cannot be read: " + err.Error(),
			Hint: "see the schema of the tool",
		}
	}
	return args, nil
}
