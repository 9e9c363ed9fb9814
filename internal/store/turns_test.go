package store_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandboxd/sandboxd/internal/store"
)

type accountKey struct{}

// Who writes once does not wait behind all that another account writes.
func TestAccountsWriteInTurn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		come    string // an account for each write, while one of a goes on; upper case: gives up before its turn
		written string
	}{
		{"one account, in the order of arrival", "aaa", "aaa"},
		{"nobody waits for two writes of another", "aaab", "baaa"},
		{"all in turn", "aabbc-", "bac-ba"},
		{"who gives up is not waited for", "aBabA", "baa"},
		{"an account that gives up has no turn", "aBBac", "caa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := store.Open(t.Context(), store.Options{Path: ":memory:"})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				db.ShareBy(func(ctx context.Context) string {
					name, _ := ctx.Value(accountKey{}).(string)
					return name
				})
				var written []string
				write := func(ctx context.Context, account string, during func()) error {
					return db.Write(context.WithValue(ctx, accountKey{}, account), func(*sql.Tx) error {
						during()
						return nil
					})
				}
				end := make(chan struct{})
				go write(t.Context(), "a", func() { <-end })
				synctest.Wait()
				var leave []context.CancelFunc
				for _, account := range strings.Split(tt.come, "") {
					ctx, cancel := context.WithCancel(t.Context())
					gives := account != strings.ToLower(account)
					if gives {
						leave = append(leave, cancel)
					}
					go func() {
						defer cancel()
						name := strings.ToLower(account)
						err := write(ctx, name, func() { written = append(written, name) })
						if gives != errors.Is(err, context.Canceled) {
							t.Errorf("a write of %s: %v", account, err)
						}
					}()
					synctest.Wait() // it waits
				}
				for _, cancel := range leave {
					cancel()
				}
				synctest.Wait()
				close(end)
				synctest.Wait()
				if want := strings.Split(tt.written, ""); !slices.Equal(written, want) {
					t.Errorf("written %v, want %v", written, want)
				}
			})
		})
	}
}
