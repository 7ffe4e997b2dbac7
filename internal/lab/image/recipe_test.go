package image

import (
	"strings"
	"testing"
)

func TestRecipesAreCompleteAndDistinct(t *testing.T) {
	aliases, keys := map[string]bool{}, map[string]bool{}
	for _, recipe := range Recipes() {
		if aliases[recipe.Alias()] || keys[recipe.key()] {
			t.Errorf("%s is there twice", recipe.Alias())
		}
		aliases[recipe.Alias()], keys[recipe.key()] = true, true
		if !strings.HasPrefix(recipe.Service, "#!/bin/sh\n") || recipe.StopSignal == "" || recipe.Description == "" {
			t.Errorf("%s lacks a service, a stop signal or a description", recipe.Alias())
		}
		if (recipe.Suite == "") != (len(recipe.Packages) == 0) || recipe.Version == "" && recipe.Suite == "" {
			t.Errorf("%s must have a version, or a suite with packages, or all of them", recipe.Alias())
		}
	}
}

func TestKeyChangesWithTheRecipe(t *testing.T) {
	recipe, err := Find("nginx/bookworm")
	if err != nil {
		t.Fatal(err)
	}
	before := recipe.key()
	if before != recipe.key() {
		t.Error("the key of one recipe isn't stable")
	}
	recipe.Service += "# changed\n"
	if before == recipe.key() {
		t.Error("another service has the same key")
	}
}

func TestFindNamesWhatThereIs(t *testing.T) {
	_, err := Find("web/9.9.9")
	if err == nil || !strings.Contains(err.Error(), "web/1.0.0") {
		t.Errorf("got %v", err)
	}
}

func TestMetadataHoldsTheProperties(t *testing.T) {
	recipe, err := Find("nginx/trixie")
	if err != nil {
		t.Fatal(err)
	}
	text := metadata(recipe, "1.26.3")
	for _, line := range []string{`version: "1.26.3"`, `release: "trixie"`, `os: "debian"`, `serial: "` + recipe.key() + `"`, "architecture: "} {
		if !strings.Contains(text, line) {
			t.Errorf("%q isn't in\n%s", line, text)
		}
	}
}
