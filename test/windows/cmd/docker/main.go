// Program docker stands in for Docker's under Wine, where there are no containers: it sends its
// arguments to the test that listens at WINNPM_DOCKER, and ends with the code that comes back.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
)

func main() {
	code, err := ask(os.Getenv("WINNPM_DOCKER"), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "docker:", err)
		code = 125 // as Docker's, when it cannot do it itself
	}
	os.Exit(code)
}

func ask(addr string, args []string) (code int, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(args); err != nil {
		return 0, err
	}
	err = json.NewDecoder(c).Decode(&code)
	return code, err
}
