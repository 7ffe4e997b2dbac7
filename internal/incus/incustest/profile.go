package incustest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

func (s *Server) listProfiles(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.holder(projectOf(r), "features.profiles")
	if err != nil {
		return nil, err
	}
	shown := []incus.Profile{}
	for k, profile := range s.profiles {
		if k.project == home {
			shown = append(shown, *profile)
		}
	}
	slices.SortFunc(shown, func(a, b incus.Profile) int { return strings.Compare(a.Name, b.Name) })
	return list(r, shown, func(p incus.Profile) string { return "/1.0/profiles/" + p.Name }), nil
}

// profile finds the profile of a request. The lock is held.
func (s *Server) profile(r *http.Request, doing string) (key, *incus.Profile, error) {
	home, err := s.holder(projectOf(r), "features.profiles")
	if err != nil {
		return key{}, nil, err
	}
	k := key{home, r.PathValue("name")}
	if s.profiles[k] == nil {
		return key{}, nil, fail(http.StatusNotFound, doing+"Profile not found")
	}
	return k, s.profiles[k], nil
}

func (s *Server) getProfile(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, profile, err := s.profile(r, "Fetch profile: ")
	if err != nil {
		return nil, err
	}
	return objectWithETag(*profile, etagOf(*profile)), nil
}

func (s *Server) postProfile(r *http.Request) (reply, error) {
	var post incus.Profile
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.holder(projectOf(r), "features.profiles")
	if err != nil {
		return nil, err
	}
	switch {
	case post.Name == "":
		return nil, fail(http.StatusBadRequest, "No name provided")
	case strings.Contains(post.Name, "/"):
		return nil, fail(http.StatusBadRequest, "Profile names may not contain slashes")
	}
	if err := checkConfig("", post.Config); err != nil {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	k := key{home, post.Name}
	if s.profiles[k] != nil {
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("Error inserting %q into database: The profile already exists", post.Name))
	}
	s.profiles[k] = filledProfile(post)
	return created("/1.0/profiles/" + post.Name), nil
}

// filledProfile replaces what is nil.
func filledProfile(profile incus.Profile) *incus.Profile {
	if profile.Config == nil {
		profile.Config = map[string]string{}
	}
	if profile.Devices == nil {
		profile.Devices = map[string]map[string]string{}
	}
	return &profile
}

func (s *Server) putProfile(r *http.Request) (reply, error) {
	var put incus.Profile
	if err := read(r, &put); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, profile, err := s.profile(r, fmt.Sprintf("Failed to retrieve profile %q: ", r.PathValue("name")))
	if err != nil {
		return nil, err
	}
	if err := matches(r, etagOf(*profile)); err != nil {
		return nil, err
	}
	if err := checkConfig("", put.Config); err != nil {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	put.Name = k.name
	s.profiles[k] = filledProfile(put)
	return empty(), nil
}

func (s *Server) deleteProfile(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _, err := s.profile(r, "")
	if err != nil {
		return nil, err
	}
	if k.name == DefaultProfile {
		return nil, fail(http.StatusForbidden, "The \"default\" profile cannot be deleted")
	}
	for _, i := range s.instances {
		if home, err := s.holder(i.Project, "features.profiles"); err == nil && home == k.project && slices.Contains(i.Profiles, k.name) {
			return nil, fail(http.StatusInternalServerError, "Profile is currently in use")
		}
	}
	delete(s.profiles, k)
	return empty(), nil
}

func (s *Server) listProjects(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := []incus.Project{}
	for _, name := range slices.Sorted(maps.Keys(s.projects)) {
		shown = append(shown, *s.projects[name])
	}
	return list(r, shown, func(p incus.Project) string { return "/1.0/projects/" + p.Name }), nil
}

func (s *Server) getProject(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	project, ok := s.projects[r.PathValue("name")]
	if !ok {
		return nil, fail(http.StatusNotFound, "Project not found")
	}
	return objectWithETag(*project, etagOf(*project)), nil
}

func (s *Server) postProject(r *http.Request) (reply, error) {
	var post incus.Project
	if err := read(r, &post); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case post.Name == "":
		return nil, fail(http.StatusBadRequest, "No name provided")
	case strings.Contains(post.Name, " "):
		return nil, fail(http.StatusBadRequest, "Project names may not contain spaces")
	case s.projects[post.Name] != nil:
		return nil, fail(http.StatusInternalServerError, fmt.Sprintf("Failed creating project %q: Failed adding database record: Failed to create \"projects\" entry: UNIQUE constraint failed: projects.name", post.Name))
	}
	config := map[string]string{"features.images": "true", "features.profiles": "true", "features.storage.buckets": "true", "features.storage.volumes": "true"}
	maps.Copy(config, post.Config)
	post.Config = config
	s.projects[post.Name] = &post
	if config["features.profiles"] == "true" {
		s.profiles[key{post.Name, DefaultProfile}] = filledProfile(incus.Profile{Name: DefaultProfile, Description: "Default Incus profile for project " + post.Name})
	}
	return created("/1.0/projects/" + post.Name), nil
}

func (s *Server) deleteProject(r *http.Request) (reply, error) {
	name := r.PathValue("name")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "default":
		return nil, fail(http.StatusForbidden, "The 'default' project cannot be deleted")
	case s.projects[name] == nil:
		return nil, fail(http.StatusNotFound, fmt.Sprintf("Fetch project %q: Project not found", name))
	}
	for k := range s.instances {
		if k.project == name {
			return nil, fail(http.StatusInternalServerError, "Only empty projects can be removed.")
		}
	}
	for k := range s.profiles {
		if k.project == name && k.name != DefaultProfile {
			return nil, fail(http.StatusInternalServerError, "Only empty projects can be removed.")
		}
	}
	for _, v := range s.volumes {
		if v.Project == name {
			return nil, fail(http.StatusInternalServerError, "Only empty projects can be removed.")
		}
	}
	for k := range s.images {
		if k.project == name {
			return nil, fail(http.StatusInternalServerError, "Only empty projects can be removed.")
		}
	}
	delete(s.projects, name)
	delete(s.profiles, key{name, DefaultProfile})
	return empty(), nil
}
