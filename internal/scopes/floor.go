package scopes

import "github.com/sandboxd/sandboxd/internal/store"

// State is the state of a floor.
type State string

// The states of a floor.
const (
	Draft      State = "draft"
	Generating State = "generating"
	Committed  State = "committed"
	Failed     State = "failed"
)

// FloorInfo is a floor in the API: one turn of a conversation on one branch.
type FloorInfo struct {
	ID           string  `json:"id"`
	Session      string  `json:"session_id"`
	No           int64   `json:"floor_no"`
	Branch       string  `json:"branch_id"`
	Parent       *string `json:"parent_floor_id"`
	State        State   `json:"state"`
	TokenIn      int64   `json:"token_in"`
	TokenOut     int64   `json:"token_out"`
	CreatedAt    int64   `json:"created_at"`
	UpdatedAt    int64   `json:"updated_at"`
	SupersededAt *int64  `json:"superseded_at"`
	SupersededBy *string `json:"superseded_by_floor_id"` // always null: a reset replaces no floor

	run      string
	attempt  int64
	snapshot bool
}

// live reports whether the floor is not superseded.
func (f FloorInfo) live() bool { return f.SupersededAt == nil }

// locked reports whether its variables, and those of its pages, may not be written (S-25).
func (f FloorInfo) locked() bool { return f.State == Generating || f.State == Committed || !f.live() }

// stages reports whether tools may stage writes for its pages.
func (f FloorInfo) stages() bool { return f.live() && (f.State == Draft || f.State == Generating) }

const floorColumns = `f.id, f.session, f.floor_no, f.branch, f.parent, f.state, f.token_in, f.token_out, f.run,
	f.attempt, f.snapshot, f.created, f.updated, f.superseded`

func scanFloor(row interface{ Scan(...any) error }) (FloorInfo, error) {
	var f FloorInfo
	var parent string
	var superseded int64
	err := row.Scan(&f.ID, &f.Session, &f.No, &f.Branch, &parent, &f.State, &f.TokenIn, &f.TokenOut, &f.run, &f.attempt,
		&f.snapshot, &f.CreatedAt, &f.UpdatedAt, &superseded)
	if parent != "" {
		f.Parent = &parent
	}
	if superseded > 0 {
		f.SupersededAt = &superseded
	}
	return f, err
}

func (v view) floor(id string) (FloorInfo, error) {
	f, err := scanFloor(v.Row(`SELECT `+floorColumns+` FROM scope_floors f WHERE f.id = $1 AND f.account = $2`,
		id, v.account))
	if store.NoRow(err) {
		err = missing(v.absent, "floor", id)
	}
	if err == nil {
		v.markUsed(f.Session)
	}
	return f, err
}

// floorOfPage returns the floor of a page of the account.
func (v view) floorOfPage(page string) (FloorInfo, error) {
	f, err := scanFloor(v.Row(`SELECT `+floorColumns+` FROM scope_pages p JOIN scope_floors f ON f.id = p.floor
		WHERE p.id = $1 AND p.account = $2 AND f.account = $2`, page, v.account))
	if store.NoRow(err) {
		err = missing(v.absent, "page", page)
	}
	if err == nil {
		v.markUsed(f.Session)
	}
	return f, err
}

// setFloor changes the state of a floor.
func (v view) setFloor(f *FloorInfo, to State) error {
	f.State, f.UpdatedAt = to, v.now
	return v.Run(`UPDATE scope_floors SET state = $1, run = $2, attempt = $3, snapshot = $4, updated = $5 WHERE id =
		$6`,
		f.State, f.run, f.attempt, f.snapshot, f.UpdatedAt, f.ID)
}
