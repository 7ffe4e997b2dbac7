package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
	"github.com/homelabops/terraform-provider-homelabops/internal/lab/image"
)

// images imports the named images, or lists what the lab has and could have.
func images(ctx context.Context, dir string, names []string) error {
	up, err := lab.Open(dir)
	if err != nil {
		return err
	}
	if slices.Equal(names, []string{"all"}) {
		names = nil
		for _, recipe := range image.Recipes() {
			names = append(names, recipe.Alias())
		}
	}
	for _, name := range names {
		if err := up.Import(ctx, name, os.Stderr); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return nil
	}
	present, err := up.Images(ctx)
	if err != nil {
		return err
	}
	for _, info := range present {
		fmt.Printf("%s  %3d MB  %s\n", info.Fingerprint[:12], info.Size>>20, strings.Join(info.Aliases, ", "))
	}
	for _, recipe := range image.Recipes() {
		missing := !slices.ContainsFunc(present, func(info lab.ImageInfo) bool { return slices.Contains(info.Aliases, recipe.Alias()) })
		if missing {
			fmt.Printf("%-12s  not here   %s\n", "", recipe.Alias())
		}
	}
	return nil
}
