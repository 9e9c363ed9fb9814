package route

import (
	"net/http"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Error is a failure with its HTTP status.
type Error struct {
	Status int
	Said   *tool.Error
}

func (e Error) Error() string { return e.Said.Msg }
func (e Error) Unwrap() error { return e.Said }

// BadRequest is 400 with code validation_error.
func BadRequest(msg string) Error {
	return Error{Status: http.StatusBadRequest, Said: &tool.Error{Code: "validation_error", Msg: msg}}
}

// Forbidden is 403.
func Forbidden(code, msg, hint string) Error {
	return Error{Status: http.StatusForbidden, Said: &tool.Error{Code: code, Msg: msg, Hint: hint}}
}

// Missing is 404.
func Missing(code, msg string) Error {
	return Error{Status: http.StatusNotFound, Said: &tool.Error{Code: code, Msg: msg}}
}
