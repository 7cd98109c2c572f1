// Connects to an address and port, and prints what comes: connect ADDRESS PORT. Go makes its system calls by itself.
package main

import (
	"io"
	"net"
	"os"
)

func main() {
	tcp, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err == nil {
		_, err = io.Copy(os.Stdout, tcp)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
