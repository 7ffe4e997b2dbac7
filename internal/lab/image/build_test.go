//go:build lab

package image

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestLabBuildIsCachedAndReproducible(t *testing.T) {
	recipe, err := Find("web/1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	first := Builder{Cache: t.TempDir(), Log: &log}
	built, err := first.Build(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	again, err := first.Build(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	if again.Rootfs != built.Rootfs || strings.Count(log.String(), "built in") != 1 {
		t.Errorf("the second build did something: %s", log.String())
	}

	elsewhere, err := Builder{Cache: t.TempDir(), Log: &log}.Build(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{built.Metadata, elsewhere.Metadata}, {built.Rootfs, elsewhere.Rootfs}} {
		one, err := os.ReadFile(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, other) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
}

func TestLabUnknownPackageFailsAndNamesIt(t *testing.T) {
	recipe := Recipe{
		Name: "none", Suite: "bookworm", Packages: []string{"no-such-package-here"}, Description: "x", Service: "#!/bin/sh\n", StopSignal: "TERM",
	}
	var log strings.Builder
	_, err := Builder{Log: &log}.Build(t.Context(), recipe)
	if err == nil || !strings.Contains(err.Error(), "no-such-package-here") {
		t.Errorf("got %v", err)
	}
}
