package mail

// A Bucket is the part of an index that a message is in, so that a search for one flow's
// mail need not step over all mail of another one. It is made of hashes: flows may
// share a bucket, and then their mail is in the order in which it came. Bucket 0 is mail
// that was not classified.
//
// The bits of the class come first, then those of the tenant, then those of the flow: a
// sender who invents flows fills no more buckets than his tenant has, 1/64 of those of
// a class.
type Bucket uint32

// The number of bits of the parts of a Bucket. The chance that two of ten classes share
// their buckets is one half, and of the few classes that most configurations have less
// than a tenth; then they share one weight where mail is admitted, and nothing else. Two flows
// of a tenant share a bucket with probability 1/256.
const (
	classBits  = 6
	tenantBits = 6
	flowBits   = 8

	// BucketEnd is greater than all buckets.
	BucketEnd Bucket = 1 << (classBits + tenantBits + flowBits)
)

// Bucket returns the bucket of a flow's mail. The spool keeps mail under it, so it must
// never change.
func (f *Flow) Bucket() Bucket {
	if *f == (Flow{}) {
		return 0
	}
	b := hash(f.Class, classBits)<<(tenantBits+flowBits) | hash(f.Tenant, tenantBits)<<flowBits | hash(f.Flow, flowBits)
	return max(b, 1)
}

// ClassBucket returns the Bucket.Class of a class's buckets.
func ClassBucket(class string) Bucket { return hash(class, classBits) }

// Class returns the part of a bucket that stands for the class.
func (b Bucket) Class() Bucket { return b >> (tenantBits + flowBits) }

// Tenant returns the part of a bucket that stands for the class and the tenant.
func (b Bucket) Tenant() Bucket { return b >> flowBits }

// hash is FNV-1a with its bits mixed, since the highest of them are used.
func hash(text string, width int) Bucket {
	h := uint64(0xcbf29ce484222325)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return Bucket(h >> (64 - width))
}
