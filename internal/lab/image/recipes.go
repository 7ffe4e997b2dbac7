package image

import "fmt"

// Recipes returns all recipes.
func Recipes() []Recipe {
	return []Recipe{
		web("1.0.0", "good"),
		web("1.1.0", "good"),
		web("1.2.0", "good"),
		web("2.0.0-bad", "bad"),
		web("2.0.1-dead", "dead"),
		web("2.0.2-late", "late"),
		nginx("bookworm"),
		nginx("trixie"),
		onDemand(haproxy("bullseye", "5.32")),
		haproxy("bookworm", "5.36"),
		haproxy("trixie", "5.40"),
		onDemand(haproxy("forky", "")),
		agent("1.0.0", "good"),
		agent("1.1.0", "good"),
		agent("2.0.0-bad", "bad"),
		agent("2.0.1-stale", "stale"),
		alloyStandin("1.0.0", "0.0.0.0:12345"),
		alloyStandin("1.1.0", "127.0.0.1:12345"),
		etcd("bookworm"),
		etcd("trixie"),
		etcd("forky"),
		postgres("bookworm", "15"),
		postgres("bookworm-security", "15"),
		postgres("trixie", "17"),
		prometheus("bookworm"),
		prometheus("trixie"),
		brokenPrometheus(),
		notes("1.0.0", "good"),
		notes("1.1.0", "good"),
		notes("2.0.0-corrupt", "corrupt"),
		sockets("bookworm"),
	}
}

// onDemand is a recipe whose image is built when a test asks for it.
func onDemand(r Recipe) Recipe {
	r.OnDemand = true
	return r
}

// web is a release of a small web application; see the command webserver for what the behaviours are.
func web(version, behaviour string) Recipe {
	return Recipe{
		Name: "web", Version: version, Description: "A web server that is " + behaviour,
		Webserver: true, StopSignal: "TERM",
		Service: fmt.Sprintf("#!/bin/sh\nexec /usr/local/bin/webserver -version %s -behaviour %s\n", version, behaviour),
	}
}

// nginx serves what its configuration says, and a page of its own until it is given another. It serves static sites too.
func nginx(suite string) Recipe {
	return Recipe{
		Name: "nginx", Suite: suite, Packages: []string{"nginx"}, Description: "nginx of Debian " + suite,
		Users: []User{{Name: "www-data", ID: 33, Home: "/var/www"}},
		Directories: []Directory{
			{Path: "/var/log/nginx", Mode: 0o755}, {Path: "/var/www/html", Mode: 0o755},
			{Path: "/var/lib/nginx", Mode: 0o755}, {Path: "/etc/nginx/sites-enabled", Mode: 0o755},
		},
		Files: map[string]string{
			"/etc/nginx/sites-enabled/default": "server {\n\tlisten 80 default_server;\n\troot /var/www/html;\n}\n",
			"/var/www/html/index.html":         "nginx\n",
		},
		Service:    "#!/bin/sh\nexec nginx -g 'daemon off;'\n",
		StopSignal: "QUIT",
	}
}
