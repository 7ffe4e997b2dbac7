package image

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Recipe says what is in an image. Everything in it is part of the image's key.
type Recipe struct {
	Name        string // what the image's aliases begin with
	Version     string // empty: that of the package Packages[0]
	Description string
	Suite       string   // Debian suite that the packages come from, and with Name an alias of the image; RELEASE-security: that release with its security updates
	Packages    []string // installed with all they depend on; the first gives the version
	Without     []string `json:",omitempty"` // patterns of packages that are left out although another depends on them
	Remove      []string `json:",omitempty"` // patterns of paths, relative to the root, of what the packages brought and nobody needs
	Users       []User   // what the packages' maintainer scripts would make; they don't run
	Directories []Directory
	Files       map[string]string // path to content
	Links       map[string]string `json:",omitempty"` // path to what it links to, in place of what a package has there
	Webserver   bool              // our own web server as /usr/local/bin/webserver
	Standin     string            `json:",omitempty"` // software that our stand-in is there for, as /usr/local/bin/NAME
	Notes       bool              `json:",omitempty"` // our notes application as /usr/local/bin/notes
	Service     string            // a shell script that becomes the service; started at boot and whenever it ends
	StopSignal  string            // what tells the service to finish what it does and end
	// Companion is a shell script for a second program. With the argument `start` it becomes that program, at boot and
	// whenever it ends; with `stop` it ends the program, before the service is told to.
	Companion string `json:",omitempty"`
	// OnDemand leaves the image out of those that a lab has from the start: it is built when a test asks for it.
	OnDemand bool `json:"-"`
}

// User is a system user with a group of the same name and number.
type User struct {
	Name string
	ID   int
	Home string
}

// Directory is one that a package expects at run time.
type Directory struct {
	Path string
	User int
	Mode uint32
}

// Alias is the name by which tests ask for the image of a recipe: NAME/VERSION, or NAME/SUITE where the suite decides
// which version it is. The image then has an alias with the version as well.
func (r Recipe) Alias() string {
	if r.Version != "" {
		return r.Name + "/" + r.Version
	}
	return r.Name + "/" + r.Suite
}

// key changes whenever the image would.
func (r Recipe) key() string {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(r); err != nil {
		panic(err) // a struct of strings and numbers
	}
	for _, name := range skeleton {
		content, err := skeletonFiles.ReadFile("rootfs/" + name)
		if err != nil {
			panic(err) // embedded
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	if r.Webserver {
		hash.Write(webserverSource)
	}
	if r.Notes {
		hash.Write(notesSource)
	}
	if r.Standin != "" {
		for _, name := range standinFiles {
			fmt.Fprintf(hash, "%s %d\n%s", name, len(standinSource(name)), standinSource(name))
		}
	}
	fmt.Fprintf(hash, "builder %d\n", builderVersion)
	return fmt.Sprintf("%x", hash.Sum(nil))[:12]
}

// builderVersion is raised when the builder makes something else of the same recipe.
const builderVersion = 1

// Find returns the recipe with this alias.
func Find(alias string) (Recipe, error) {
	known := make([]string, 0, 32)
	for _, recipe := range Recipes() {
		if recipe.Alias() == alias {
			return recipe, nil
		}
		known = append(known, recipe.Alias())
	}
	return Recipe{}, fmt.Errorf("no recipe makes an image %q; there are %q", alias, known)
}
