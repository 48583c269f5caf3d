//go:build !linux

package remote

// start starts ssh, which ends when its input does.
func (s *session) start() error {
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go s.wait()
	return nil
}
