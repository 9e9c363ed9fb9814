package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime/debug"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tool"
)

// defaultAccount is that of a uid which the configuration does not name.
const defaultAccount = "default-admin"

// peer is who is at the other end of a connection, as the kernel says; of the
// time it connected.
type peer struct {
	uid, gid, pid int
	known         bool
}

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := peer{}
	if uc, ok := c.(*net.UnixConn); ok {
		if raw, err := uc.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					p = peer{int(cred.Uid), int(cred.Gid), int(cred.Pid), true}
				}
			})
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// who is the caller of one request.
type who struct {
	account string
	role    tool.Role
	home    string
	uid     int
}

type whoKey struct{}

func caller(r *http.Request) who { return r.Context().Value(whoKey{}).(who) }

// wrap turns a route into a handler for the sockets of one role.
func (s *Server) wrap(rt route, role tool.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				s.Log.Error("panic in a handler", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				writeError(w, errors.New("the daemon failed; its log says where"))
			}
		}()
		me, err := s.identify(r, role)
		if err == nil && rt.role == tool.RoleOperator && role != tool.RoleOperator {
			err = forbidden("operator_only", r.Method+" "+r.URL.Path+" is for operators", "use the operator socket")
		}
		if err != nil {
			writeError(w, err)
			return
		}
		out, err := rt.handle(r.WithContext(context.WithValue(r.Context(), whoKey{}, me)))
		if err != nil {
			writeError(w, err)
			return
		}
		switch out := out.(type) {
		case stream:
			serveStream(w, r, out)
		case list:
			write(w, http.StatusOK, out)
		case created:
			write(w, http.StatusCreated, map[string]any{"data": out.data})
		default:
			write(w, http.StatusOK, map[string]any{"data": out})
		}
	})
}

// created is an answer with status 201.
type created struct{ data any }

func (s *Server) identify(r *http.Request, role tool.Role) (who, error) {
	p, _ := r.Context().Value(peerKey{}).(peer)
	if !p.known {
		return who{}, forbidden("peer_unknown", "the kernel does not say who is calling", "connect to the Unix socket directly")
	}
	if s.Hooks.Descends(p.pid) {
		return who{}, forbidden("called_by_hook", "a hook must not call the daemon that waits for it", "")
	}
	me := who{account: s.account(p.uid), role: role, uid: p.uid, home: homeOf(p.uid)}
	if role != tool.RoleOperator {
		return me, nil
	}
	if p.uid != 0 && p.uid != os.Geteuid() && !slices.Contains(s.Operators, p.uid) && !s.operatorGroup(p) {
		return who{}, forbidden("not_an_operator", fmt.Sprintf("uid %d is not an operator", p.uid), "list it in operators.uids, or a group of it in operators.gids")
	}
	if a := r.Header.Get("X-Account-Id"); a != "" {
		me.account = a
	}
	return me, nil
}

// operatorGroup reports whether the caller is in a group of operators: the one it
// runs with, or one that the group database gives its user.
func (s *Server) operatorGroup(p peer) bool {
	if len(s.OperatorGroups) == 0 {
		return false
	}
	if slices.Contains(s.OperatorGroups, p.gid) {
		return true
	}
	u, err := user.LookupId(strconv.Itoa(p.uid))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.ContainsFunc(groups, func(g string) bool {
		gid, err := strconv.Atoi(g)
		return err == nil && slices.Contains(s.OperatorGroups, gid)
	})
}

func (s *Server) account(uid int) string { return or(s.Accounts[uid], defaultAccount) }

// homeOf is the home of the caller: of the daemon's own uid as its environment
// says, of others as the account database does.
func homeOf(uid int) string {
	if uid == os.Getuid() {
		if h := os.Getenv("HOME"); h != "" {
			return h
		}
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.HomeDir
	}
	return "/"
}

// notFound answers what no route matches: 405 with the methods there are, or 404.
func notFound(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			probe := r.Clone(r.Context())
			probe.Method = m
			if _, pattern := mux.Handler(probe); pattern != "/" {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 {
			writeError(w, missing("not_found", "no route "+r.URL.Path))
			return
		}
		w.Header()["Allow"] = allowed
		writeError(w, httpError{http.StatusMethodNotAllowed, &tool.Error{
			Code: "method_not_allowed", Msg: r.Method + " is not allowed on " + r.URL.Path, Hint: fmt.Sprintf("allowed: %v", allowed),
		}})
	}
}
