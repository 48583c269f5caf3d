package check

// Sizes of the store. A state's number has the shard in its low bits and the place in the shard above.
const (
	shardBits = 6
	shards    = 1 << shardBits
	chunkBits = 10
	chunkSize = 1 << chunkBits // states whose keys and parents are allocated together
	pageBits  = 9
	pageSize  = 1 << pageBits    // slots of one page of a shard's index
	pageFull  = pageSize * 7 / 8 // a page with more is split in two
	placeBits = 32 - shardBits
	placeMask = 1<<placeBits - 1
	maxPlaces = placeMask - 1
)

// noState is the number of no state.
const noState = ^uint32(0)

// A store holds the states found so far, each under a number. It is cut into shards by hash; different
// shards may be written to at once, and nothing may be read from a shard while it is written to.
//
// A state costs its key, four bytes for its parent, and its share of an index of four bytes a slot: pages
// of slots that are split one by one as they fill, so that nothing ever doubles.
type store struct {
	shards [shards]shard
}

type shard struct {
	count  uint32
	full   bool // the budget was too small for a state
	bytes  int64
	budget int64 // 0: no limit
	chunks []*chunk
	pages  []*page // by the hash's highest bits, depth of them
	depth  uint
	_      [64]byte // neighbours in an array are written by different cores
}

// A chunk holds the keys of small models in two words.
type chunk struct {
	keys    [chunkSize][2]uint64
	parents [chunkSize]uint32
	third   *[chunkSize]uint64 // of a key; nil if all are 0
}

func (c *chunk) key(i uint32) Key {
	k := Key{c.keys[i][0], c.keys[i][1]}
	if c.third != nil {
		k[2] = c.third[i]
	}
	return k
}

func (c *chunk) put(i uint32, k *Key, parent uint32) {
	c.keys[i], c.parents[i] = [2]uint64{k[0], k[1]}, parent
	if c.third != nil {
		c.third[i] = k[2]
	}
}

func (c *chunk) has(i uint32, k *Key) bool {
	return c.keys[i] == [2]uint64{k[0], k[1]} && (c.third == nil && k[2] == 0 || c.third != nil && c.third[i] == k[2])
}

// A page is a hash table of slots with linear probing. A slot is 0, or a place plus 1 under six bits of the
// key's hash that make most comparisons of keys needless.
type page struct {
	count int32
	depth uint32 // how many of the highest bits of hash its keys share
	slots [pageSize]uint32
}

const (
	chunkBytes = chunkSize*(16+4) + 8
	thirdBytes = chunkSize * 8
	pageBytes  = pageSize*4 + 8
)

// newStore returns a store that takes at most budget bytes; 0 is no limit.
func newStore(budget int64) *store {
	st := &store{}
	for i := range st.shards {
		sh := &st.shards[i]
		sh.budget = budget / shards
		sh.pages = []*page{{}}
		sh.bytes = pageBytes
	}
	return st
}

func shardOf(h uint64) uint32 { return uint32(h) & (shards - 1) }

// number returns the number of the state at a place of a shard.
func number(shard, place uint32) uint32 { return place<<shardBits | shard }

// key returns the key of state id.
func (st *store) key(id uint32) Key {
	place := id >> shardBits
	return st.shards[id&(shards-1)].chunks[place>>chunkBits].key(place & (chunkSize - 1))
}

// parent returns the state from which id was found first; the initial state is its own.
func (st *store) parent(id uint32) uint32 {
	place := id >> shardBits
	return st.shards[id&(shards-1)].chunks[place>>chunkBits].parents[place&(chunkSize-1)]
}

// find returns k's number, or noState.
func (st *store) find(k *Key) uint32 {
	h := hash(k)
	s := shardOf(h)
	place, found, _, _ := st.shards[s].look(k, h)
	if !found {
		return noState
	}
	return number(s, place)
}

// len returns how many states there are.
func (st *store) len() int {
	n := 0
	for i := range st.shards {
		n += int(st.shards[i].count)
	}
	return n
}

// bytes returns what the store has allocated.
func (st *store) bytes() int64 {
	var n int64
	for i := range st.shards {
		n += st.shards[i].bytes
	}
	return n
}

// look finds k, whose hash is h, or the slot where it belongs.
func (sh *shard) look(k *Key, h uint64) (place uint32, found bool, p *page, slot uint32) {
	p = sh.pages[h>>1>>(63-sh.depth)]
	tag := uint32(h>>16) << placeBits
	for slot = uint32(h>>shardBits) & (pageSize - 1); ; slot = (slot + 1) & (pageSize - 1) {
		v := p.slots[slot]
		if v == 0 {
			return 0, false, p, slot
		}
		if v&^placeMask == tag {
			place = v&placeMask - 1
			if sh.chunks[place>>chunkBits].has(place&(chunkSize-1), k) {
				return place, true, p, slot
			}
		}
	}
}

// add stores k, whose hash is h, unless it is there or the shard is full.
func (sh *shard) add(k *Key, h uint64, parent uint32) (fresh bool) {
	if sh.full {
		return false
	}
	_, found, p, slot := sh.look(k, h)
	if found {
		return false
	}
	for p.count >= pageFull {
		if !sh.split(p, h) {
			sh.full = true
			return false
		}
		_, _, p, slot = sh.look(k, h)
	}
	place := sh.count
	if int(place>>chunkBits) == len(sh.chunks) {
		if place >= maxPlaces || !sh.afford(chunkBytes) {
			sh.full = true
			return false
		}
		sh.chunks = append(sh.chunks, new(chunk))
	}
	c := sh.chunks[place>>chunkBits]
	if k[2] != 0 && c.third == nil {
		if !sh.afford(thirdBytes) {
			sh.full = true
			return false
		}
		c.third = new([chunkSize]uint64)
	}
	c.put(place&(chunkSize-1), k, parent)
	p.slots[slot] = uint32(h>>16)<<placeBits | (place + 1)
	p.count++
	sh.count++
	return true
}

// afford takes n bytes from the budget, if it has them.
func (sh *shard) afford(n int64) bool {
	if sh.budget > 0 && sh.bytes+n > sh.budget {
		return false
	}
	sh.bytes += n
	return true
}

// split halves a full page, to which h belongs, by the next bit of its keys' hashes.
func (sh *shard) split(p *page, h uint64) bool {
	if !sh.afford(pageBytes) {
		return false
	}
	if uint(p.depth) == sh.depth {
		sh.widen()
	}
	old := p.slots
	first := h >> 1 >> (63 - p.depth) << (sh.depth - uint(p.depth)) // p's first place in the directory
	p.depth++
	q := &page{depth: p.depth}
	half := uint64(1) << (sh.depth - uint(p.depth))
	for i := first + half; i < first+2*half; i++ {
		sh.pages[i] = q
	}
	p.slots, p.count = [pageSize]uint32{}, 0
	for _, v := range old {
		if v == 0 {
			continue
		}
		place := v&placeMask - 1
		key := sh.chunks[place>>chunkBits].key(place & (chunkSize - 1))
		hv := hash(&key)
		to := p
		if hv>>(64-p.depth)&1 != 0 {
			to = q
		}
		slot := uint32(hv>>shardBits) & (pageSize - 1)
		for to.slots[slot] != 0 {
			slot = (slot + 1) & (pageSize - 1)
		}
		to.slots[slot] = v
		to.count++
	}
	return true
}

// widen doubles the directory of pages: eight bytes for some 300 states.
func (sh *shard) widen() {
	wide := make([]*page, 2*len(sh.pages))
	for i, p := range sh.pages {
		wide[2*i], wide[2*i+1] = p, p
	}
	sh.pages = wide
	sh.depth++
}
