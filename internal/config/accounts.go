package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Accounts says which account a caller has. The kernel tells the uid of the caller.
type Accounts struct {
	Names  map[int]string // by uid
	Others Others
}

// Others says what happens to uids that have no name.
type Others string

// The values of accounts.others.
const (
	OthersOwn    Others = "own"    // each gets an account of its own, uid-N
	OthersRefuse Others = "refuse" // each is refused
)

// Of returns the account of a uid, for a daemon that runs as the uid own. It reports false if the uid is refused;
// the account still names the uid then, so that metrics can count it.
func (a Accounts) Of(uid, own int) (account string, ok bool) {
	if name := a.Names[uid]; name != "" {
		return name, true
	}
	if uid == own {
		return tool.DefaultAccount, true
	}
	return "uid-" + strconv.Itoa(uid), a.Others == OthersOwn
}

// UnmarshalYAML reads one mapping: others, and a name for each uid.
func (a *Accounts) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return typeErrors(fmt.Sprintf("line %d: accounts: want a name for each uid", n.Line))
	}
	a.Names = map[int]string{}
	var wrong []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var text string
		if err := value.Decode(&text); err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: accounts: want a name for %q", value.Line, key.Value))
			continue
		}
		if key.Value == "others" {
			a.Others = Others(text)
			continue
		}
		uid, err := strconv.Atoi(key.Value)
		if err != nil || uid < 0 || uid > math.MaxUint32-1 || strconv.Itoa(uid) != key.Value {
			wrong = append(wrong, fmt.Sprintf("line %d: accounts: %q is neither a uid nor others", key.Line, key.Value))
			continue
		}
		a.Names[uid] = text
	}
	return typeErrors(wrong...)
}

// MarshalYAML writes the mapping that UnmarshalYAML reads.
func (a Accounts) MarshalYAML() (any, error) {
	all := map[string]string{"others": string(a.Others)}
	for uid, name := range a.Names {
		all[strconv.Itoa(uid)] = name
	}
	return all, nil
}

var (
	accountName = lazyregexp.New(`^[-_.a-zA-Z0-9]+$`)
	// reservedName matches the names that the daemon itself gives to accounts. The file may not use them: such a
	// name would let one uid into the sessions of another.
	reservedName = lazyregexp.New(`^(` + regexp.QuoteMeta(tool.DefaultAccount) + `|uid-[0-9]+)$`)
)

func (c *Config) checkAccounts(d *document) error {
	var errs []error
	if o := c.Accounts.Others; o != OthersOwn && o != OthersRefuse {
		errs = append(errs, d.errorAt([]string{"accounts", "others"},
			fmt.Errorf("unknown value %q: want %s or %s", o, OthersOwn, OthersRefuse)))
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Accounts.Names)) {
		var err error
		switch name := c.Accounts.Names[uid]; {
		case !accountName().MatchString(name):
			err = fmt.Errorf("%q is no name for an account: want letters, digits or any of -_. only", name)
		case reservedName().MatchString(name):
			err = fmt.Errorf("%q is what the daemon calls uids without a name; choose another", name)
		}
		if err != nil {
			errs = append(errs, d.errorAt([]string{"accounts", strconv.Itoa(uid)}, err))
		}
	}
	return errors.Join(errs...)
}
