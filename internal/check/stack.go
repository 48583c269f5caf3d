package check

const (
	stackBits  = 14
	stackChunk = 1 << stackBits
)

// A stack grows without copying, so that it never takes twice what it holds.
type stack[T any] struct {
	chunks [][]T
	n      int
}

func (s *stack[T]) push(v T) {
	if s.n>>stackBits == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, stackChunk))
	}
	s.chunks[s.n>>stackBits][s.n&(stackChunk-1)] = v
	s.n++
}

func (s *stack[T]) pop() T {
	s.n--
	return s.chunks[s.n>>stackBits][s.n&(stackChunk-1)]
}

func (s *stack[T]) at(i int) *T { return &s.chunks[i>>stackBits][i&(stackChunk-1)] }

func (s *stack[T]) top() *T { return s.at(s.n - 1) }
