package image

// sockets has the tools that a tunnel into an instance can be made of, and what can be at its end: a server that sends back
// what it gets (port 7000), one that reads nothing (7001), and one of HTTP (8080).
func sockets(suite string) Recipe {
	return Recipe{
		Name: "sockets", Suite: suite, Packages: []string{"bash", "socat", "netcat-openbsd"}, Description: "Tools of Debian " + suite + " that connect",
		Files: map[string]string{"/srv/www/index.html": "hello\n"},
		Service: "#!/bin/sh\nbusybox nc -ll -p 7000 -e cat &\nbusybox nc -ll -p 7001 -e sleep 600 &\n" +
			"exec busybox httpd -f -p 8080 -h /srv/www\n",
		StopSignal: "KILL",
	}
}
