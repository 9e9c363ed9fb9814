package part_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/sessions"
)

// Config is the section notes of the configuration.
type Config struct {
	Max int `yaml:"max"`
}

func (c *Config) Check() error {
	if c.Max < 1 {
		return errors.New("max must be at least 1")
	}
	return nil
}

// Open makes the part from its section.
func Open(_ context.Context, h part.Host) (part.Part, error) {
	c := h.Config.(*Config)
	return part.Part{
		Status: func() any { return map[string]int{"max": c.Max} },
		Close:  func() error { fmt.Println("closed"); return nil },
	}, nil
}

func Example() {
	d := part.Definition{
		Name:   "notes",
		Schema: sessions.Schema(), // store.Embedded("notes", migrations)
		Config: func() part.Config { return &Config{Max: 100} },
		Open:   Open,
	}

	// What the daemon does with it.
	section := d.Config()
	if err := section.Check(); err != nil {
		log.Fatal(err)
	}
	p, err := d.Open(context.Background(), part.Host{Config: section})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Name, p.Status())
	if err := p.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// notes map[max:100]
	// closed
}
