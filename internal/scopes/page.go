package scopes

import "github.com/sandboxd/sandboxd/internal/store"

// Kind is the purpose of a page.
type Kind string

// The kinds of pages. Only those of output are promoted to their floor.
const (
	Input  Kind = "input"
	Output Kind = "output"
	Mixed  Kind = "mixed"
)

// Decision is what a client decided about a page.
type Decision string

// The decisions. In the API null stands for none.
const (
	Accepted Decision = "accepted"
	Rejected Decision = "rejected"
)

// PageInfo is a page in the API: one version of one part of a floor.
type PageInfo struct {
	ID        string    `json:"id"`
	Floor     string    `json:"floor_id"`
	No        int64     `json:"page_no"`
	Kind      Kind      `json:"page_kind"`
	Active    bool      `json:"is_active"`
	Version   int64     `json:"version"`
	Checksum  *string   `json:"checksum"`
	Decision  *Decision `json:"decision"`
	CreatedAt int64     `json:"created_at"`
	UpdatedAt int64     `json:"updated_at"`
}

// said returns the decision, or "".
func (p PageInfo) said() Decision {
	if p.Decision == nil {
		return ""
	}
	return *p.Decision
}

const pageColumns = `p.id, p.floor, p.page_no, p.kind, p.active, p.version, p.checksum, p.decision, p.created,
	p.updated`

func scanPage(row interface{ Scan(...any) error }) (PageInfo, error) {
	var p PageInfo
	var said Decision
	err := row.Scan(&p.ID, &p.Floor, &p.No, &p.Kind, &p.Active, &p.Version, &p.Checksum, &said, &p.CreatedAt,
		&p.UpdatedAt)
	if said != "" {
		p.Decision = &said
	}
	return p, err
}

func (v view) page(id string) (PageInfo, error) {
	p, err := scanPage(v.Row(`SELECT `+pageColumns+` FROM scope_pages p WHERE p.id = $1 AND p.account = $2`,
		id, v.account))
	if store.NoRow(err) {
		err = missing(v.absent, "page", id)
	}
	return p, err
}

// pageAndFloor returns a page and its floor.
func (v view) pageAndFloor(id string) (PageInfo, FloorInfo, error) {
	p, err := v.page(id)
	if err != nil {
		return p, FloorInfo{}, err
	}
	f, err := v.floor(p.Floor)
	return p, f, err
}

// savePage stores the fields of a page that may change. Its floor and its account never change.
func (v view) savePage(p *PageInfo) error {
	p.UpdatedAt = v.now
	return v.Run(`UPDATE scope_pages SET page_no = $1, kind = $2, active = $3, version = $4, checksum = $5,
		decision = $6, updated = $7 WHERE id = $8`,
		p.No, p.Kind, p.Active, p.Version, p.Checksum, p.said(), p.UpdatedAt, p.ID)
}

// slotTaken reports whether another page of the slot is active.
func (v view) slotTaken(p PageInfo) (bool, error) {
	return v.hasRow(`SELECT 1 FROM scope_pages WHERE floor = $1 AND page_no = $2 AND active = $3 AND id <> $4`,
		p.Floor, p.No, true, p.ID)
}
