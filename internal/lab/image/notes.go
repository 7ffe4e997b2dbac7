package image

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
)

//go:embed notes/main.go
var notesSource []byte

// addNotes compiles the notes application into the root file system.
func addNotes(ctx context.Context, root string) error {
	return compile(ctx, map[string][]byte{"main.go": notesSource}, filepath.Join(root, "usr/local/bin/notes"))
}

// notes is a release of a small web application with a SQLite database; see the command notes for what the behaviours are.
func notes(version, behaviour string) Recipe {
	return Recipe{
		Name: "notes", Version: version, Description: "A web application whose treatment of its database is " + behaviour,
		Suite: "bookworm", Packages: []string{"sqlite3"}, Notes: true, StopSignal: "TERM",
		Service: fmt.Sprintf("#!/bin/sh\nexec /usr/local/bin/notes -version %s -behaviour %s\n", version, behaviour),
	}
}
