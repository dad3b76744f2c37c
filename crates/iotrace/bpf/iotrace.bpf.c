// The kernel's half of `tenbin trace`: every request to a block device, from its issue to its
// completion, with the file behind its first page. `cargo xtask bpf` builds the object beside this.
//
// One I/O is one record on the ring, sent when it completes; until then it waits in IN_FLIGHT.
// What the ring has no room for is counted in LOST, so that records + lost is what there was.
//
// The kernel does not run a program while the same program is interrupted on the same CPU, so now
// and then an issue or a completion is not seen. Such an I/O is recorded all the same: one without
// end when its request is issued again or the trace ends, one without beginning at its completion.
#include "kernel.h"

// Set by the loader.
const volatile u32 PAGE_SHIFT = 12;  // of the running kernel
const volatile u32 RANGES = 0;       // how many of DEVICES count; 0: every device
const volatile u32 ROOT_PID = 0;     // only this process and its descendants; 0: everyone
const volatile u64 WAKE_BYTES = 0;   // unread bytes on the ring from which the reader is woken

// The records; `src/event.rs` reads them.
enum { RECORD_IO = 1, RECORD_FILE = 2, RECORD_PROCESS = 3 };

enum { HOST_UNKNOWN = 0, HOST_FILE = 1, HOST_DEVICE = 2 };

enum {
	FLAG_SYNC = 1 << 8,
	FLAG_META = 1 << 9,
	FLAG_PRIO = 1 << 10,
	FLAG_FUA = 1 << 11,
	FLAG_PREFLUSH = 1 << 12,
	FLAG_READAHEAD = 1 << 13,
	FLAG_BACKGROUND = 1 << 14,
	FLAG_SWAP = 1 << 15,
	FLAG_MIXED = 1 << 16, // its last bio belongs to another file than its first
	FLAG_ERROR = 1 << 17,
	FLAG_UNENDED = 1 << 18, // its completion was not seen
	FLAG_UNBEGUN = 1 << 19, // its issue was not seen
};

struct file_key {
	u64 inode;
	u32 fs_dev;
	u32 generation;
};

struct io {
	u32 record;
	u32 dev;
	u64 issue_ns;
	u64 latency_ns;
	u64 sector;
	u32 bytes;
	u32 flags; // operation in the low 8 bits, FLAG_* above
	u32 pid;
	u32 host; // HOST_*
	struct file_key file;
	u64 offset; // in the file, bytes
};

#define DEPTH 8
#define NAME 64

struct file {
	u32 record;
	u32 depth;
	struct file_key file;
	struct {
		u64 inode;
		char name[NAME];
	} part[DEPTH]; // the file, its folder, the folder of that …
};

#define TITLE 160

struct process {
	u32 record;
	u32 pid;
	u32 kernel; // a thread of the kernel's
	s32 title_bytes;
	char name[16];
	char title[TITLE]; // its arguments, NUL between them
};

struct seen {
	u64 started;
	u64 name[2];
};

struct range {
	u64 first;
	u64 end;
	u32 dev;
	u32 unused;
};

enum {
	COUNT_ISSUED,
	COUNT_ENDED,    // left IN_FLIGHT, in whatever way
	COUNT_SENT,     // records of I/Os for the ring
	COUNT_LOST,     // … for which it had no room, and I/Os that never became one
	COUNT_OVERFLOW, // IN_FLIGHT had no room
	COUNTS,
};

RING(EVENTS, 1 << 25);
MAP(IN_FLIGHT, MAP_HASH, 1 << 16, u64, struct io);
MAP(FILES, MAP_LRU_HASH, 1 << 16, struct file_key, u32);
MAP(PROCESSES, MAP_LRU_HASH, 1 << 13, u32, struct seen);
MAP(DEVICES, MAP_ARRAY, 16, u32, struct range);
MAP(STARTED, MAP_ARRAY, 1, u32, u64); // when the trace began; 0 before
MAP(COUNTERS, MAP_PERCPU_ARRAY, COUNTS, u32, u64);

INLINE void count(u32 what)
{
	u64 *value = map_lookup(&COUNTERS, &what);
	if (value)
		*value += 1; // of this CPU alone, which is not preempted here
}

INLINE u64 wake(void)
{
	return ring_query(&EVENTS, RING_QUERY_UNREAD) >= WAKE_BYTES ? RING_FORCE_WAKEUP : RING_NO_WAKEUP;
}

#define OP_WRITE 1 // enum req_op, the same since Linux 4.10
#define OP_FLUSH 2

// A flush is of the whole disk: it has no sector (the kernel says -1), and is wanted with any part of it.
INLINE bool is_flush(struct request *rq)
{
	return (rq->cmd_flags & 0xff) == OP_FLUSH;
}

INLINE bool wanted_place(struct request *rq, u32 dev)
{
	if (!RANGES)
		return 1;
	u64 sector = rq->__sector;
	bool anywhere = is_flush(rq);
	for (u32 i = 0; i < 16 && i < RANGES; i++) {
		u32 key = i;
		struct range *range = map_lookup(&DEVICES, &key);
		if (range && range->dev == dev &&
		    (anywhere || (sector >= range->first && sector < range->end)))
			return 1;
	}
	return 0;
}

INLINE bool wanted_process(void)
{
	if (!ROOT_PID)
		return 1;
	struct task_struct *task = (void *)current_task();
	for (int i = 0; i < 16 && task; i++) {
		u32 pid = READ(task, tgid);
		if (pid == ROOT_PID)
			return 1;
		if (pid <= 1)
			return 0;
		task = READ(task, real_parent);
	}
	return 0;
}

#define FLAG(name) (ENUM_EXISTS(enum req_flag_bits, __REQ_##name) && \
		    flags & (1U << ENUM(enum req_flag_bits, __REQ_##name)) ? FLAG_##name : 0)

INLINE u32 flags_of(u32 flags)
{
	u32 told = flags & 0xff;
	told |= FLAG(SYNC) | FLAG(META) | FLAG(PRIO) | FLAG(FUA) | FLAG(PREFLUSH);
	told |= FLAG(BACKGROUND) | FLAG(SWAP);
	if (ENUM_EXISTS(enum req_flag_bits, __REQ_RAHEAD) &&
	    flags & (1U << ENUM(enum req_flag_bits, __REQ_RAHEAD)))
		told |= FLAG_READAHEAD;
	return told;
}

// The file's address space behind a bio's next page, and where in it, pages and bytes. None for
// anonymous memory. Whether it is one at all is for `host_of` to tell.
INLINE struct address_space *mapping_of(struct bio *bio, u64 *offset)
{
	struct bio_vec *vecs = READ(bio, bi_io_vec);
	if (!vecs)
		return 0;
	u64 index = READ(bio, bi_iter.bi_idx);
	struct bio_vec *vec = (void *)vecs + index * SIZE_OF(struct bio_vec);
	u64 page = (u64)READ(vec, bv_page);
	if (!page)
		return 0;
	u64 within = (u64)READ(vec, bv_offset) + READ(bio, bi_iter.bi_bvec_done);
	u64 head = READ((struct page *)page, compound_head);
	u64 folio = head & 1 ? head - 1 : page;
	u64 mapping = (u64)READ((struct folio *)folio, mapping);
	if (mapping & 3)
		return 0;
	u64 pages = READ((struct folio *)folio, index) + (page - folio) / SIZE_OF(struct page);
	*offset = (pages << PAGE_SHIFT) + within;
	return (void *)mapping;
}

#define S_IFMT 0170000
#define S_IFBLK 0060000

// Memory that is not the page cache's has something else where `mapping` would be; an inode
// that does not point back is none.
INLINE struct inode *host_of(struct address_space *mapping)
{
	if (!mapping)
		return 0;
	struct inode *inode = READ(mapping, host);
	if (!inode || READ(inode, i_mapping) != mapping)
		return 0;
	return inode;
}

INLINE void tell_file(struct inode *inode, struct file_key *key)
{
	if (map_lookup(&FILES, key))
		return;
	struct hlist_node *alias = READ(inode, i_dentry.first);
	if (!alias)
		return; // no name now; perhaps at its next I/O
	struct file *file = ring_reserve(&EVENTS, sizeof(*file), 0);
	if (!file)
		return; // nor room; likewise
	file->record = RECORD_FILE;
	file->file = *key;
	struct dentry *dentry = (void *)alias - OFFSET_OF(struct dentry, d_u.d_alias);
	u32 depth = 0;
	for (u32 i = 0; i < DEPTH; i++) {
		file->part[i].inode = 0;
		file->part[i].name[0] = 0;
		if (!dentry)
			continue;
		struct inode *own = READ(dentry, d_inode);
		file->part[i].inode = READ(own, i_ino);
		read_kernel_text(file->part[i].name, NAME, READ(dentry, d_name.name));
		depth = i + 1;
		struct dentry *parent = READ(dentry, d_parent);
		dentry = parent == dentry ? 0 : parent;
	}
	file->depth = depth;
	ring_submit(file, wake());
	u32 yes = 1;
	map_update(&FILES, key, &yes, 0);
}

#define PF_KTHREAD 0x00200000

INLINE u32 tell_process(void)
{
	struct task_struct *task = (void *)current_task();
	struct task_struct *leader = READ(task, group_leader);
	u32 pid = READ(leader, tgid);
	struct seen now = {};
	now.started = READ(leader, start_time);
	read_kernel(now.name, sizeof(now.name), __builtin_preserve_access_index(&leader->comm));
	struct seen *seen = map_lookup(&PROCESSES, &pid);
	if (seen && seen->started == now.started && seen->name[0] == now.name[0] &&
	    seen->name[1] == now.name[1])
		return pid;
	struct process *process = ring_reserve(&EVENTS, sizeof(*process), 0);
	if (!process)
		return pid;
	process->record = RECORD_PROCESS;
	process->pid = pid;
	process->kernel = READ(leader, flags) & PF_KTHREAD ? 1 : 0;
	*(u64 *)&process->name[0] = now.name[0];
	*(u64 *)&process->name[8] = now.name[1];
	process->title_bytes = 0;
	struct mm_struct *mm = READ(leader, mm);
	if (mm && read_user(process->title, TITLE, (void *)READ(mm, arg_start)) == 0)
		process->title_bytes = TITLE;
	ring_submit(process, wake());
	map_update(&PROCESSES, &pid, &now, 0);
	return pid;
}

// Shared memory is made of files too, but never read from a disk: it is the buffer of I/O past the
// page cache (include/uapi/linux/magic.h).
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6

// Whether a bio's next page is one of those that the page cache writes back. If not, a process has part of
// a file mapped and writes it to another file past the page cache, as PostgreSQL does with the zeroes in
// its program.
INLINE bool under_writeback(struct bio *bio)
{
	struct bio_vec *vecs = READ(bio, bi_io_vec);
	u64 index = READ(bio, bi_iter.bi_idx);
	struct bio_vec *vec = (void *)vecs + index * SIZE_OF(struct bio_vec);
	u64 page = (u64)READ(vec, bv_page);
	u64 head = READ((struct page *)page, compound_head);
	u64 flags = 0;
	// The first word of every page; its type has changed, and so has no offset to ask for.
	read_kernel(&flags, sizeof(flags), (void *)(head & 1 ? head - 1 : page));
	return flags >> ENUM(enum pageflags, PG_writeback) & 1;
}

INLINE void tell_host(struct request *rq, struct io *io)
{
	struct bio *bio = rq->bio;
	if (!bio)
		return;
	u64 offset = 0, other = 0;
	struct address_space *mapping = mapping_of(bio, &offset);
	struct bio *last = rq->biotail;
	if (last && last != bio && mapping_of(last, &other) != mapping)
		io->flags |= FLAG_MIXED;
	struct inode *inode = host_of(mapping);
	if (!inode)
		return;
	bool block_device = (READ(inode, i_mode) & S_IFMT) == S_IFBLK;
	if (!block_device && (rq->cmd_flags & 0xff) == OP_WRITE && !under_writeback(bio))
		return;
	struct super_block *fs = READ(inode, i_sb);
	u64 magic = READ(fs, s_magic);
	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC)
		return;
	io->file.inode = READ(inode, i_ino);
	io->file.fs_dev = READ(fs, s_dev);
	io->file.generation = READ(inode, i_generation);
	io->offset = offset;
	if (block_device) {
		io->host = HOST_DEVICE;
		return;
	}
	io->host = HOST_FILE;
	tell_file(inode, &io->file);
}

// What a request says of itself.
INLINE struct io describe(struct request *rq, u32 dev)
{
	struct io io = {
		.record = RECORD_IO,
		.dev = dev,
		.sector = is_flush(rq) ? 0 : rq->__sector,
		.bytes = rq->__data_len,
		.flags = flags_of(rq->cmd_flags),
	};
	tell_host(rq, &io);
	return io;
}

INLINE u32 dev_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;
	return disk ? (u32)disk->major << 20 | (u32)disk->first_minor : 0;
}

INLINE void send(struct io *io)
{
	count(COUNT_SENT);
	if (ring_output(&EVENTS, io, sizeof(*io), wake()))
		count(COUNT_LOST);
}

SEC("tp_btf/block_rq_issue")
int issue(u64 *arguments)
{
	struct request *rq = (void *)arguments[0];
	u32 dev = dev_of(rq);
	if (!wanted_place(rq, dev) || !wanted_process())
		return 0;
	u64 key = (u64)rq;
	struct io *before = map_lookup(&IN_FLIGHT, &key);
	if (before) {
		before->flags |= FLAG_UNENDED;
		send(before);
		count(COUNT_ENDED);
	}
	struct io io = describe(rq, dev);
	io.pid = tell_process();
	io.issue_ns = now_ns();
	if (map_update(&IN_FLIGHT, &key, &io, 0) == 0) {
		count(COUNT_ISSUED);
		return 0;
	}
	count(COUNT_OVERFLOW);
	// Its completion records it as one without beginning, unless it is for one process's I/Os.
	if (ROOT_PID)
		count(COUNT_LOST);
	return 0;
}

// Records an I/O at its completion that was not seen to begin; not one from before the trace.
// One process's I/Os cannot be told here.
//
// Who asks for a flush sends a write without data, or with data and a mark. The kernel issues a request
// of its own to flush (OP_FLUSH, block/blk-flush.c), for several who ask at once, and reports the
// completion of theirs as well, without data: that one was never issued and is no I/O.
INLINE void unbegun(struct request *rq, u32 error)
{
	u32 first = 0;
	u64 *started = map_lookup(&STARTED, &first);
	u32 dev = dev_of(rq);
	if (ROOT_PID || !wanted_place(rq, dev))
		return;
	if (!is_flush(rq) && (!rq->bio || !rq->__data_len))
		return;
	if (!started || !*started || rq->start_time_ns < *started)
		return;
	struct io io = describe(rq, dev);
	io.issue_ns = rq->start_time_ns;
	io.flags |= FLAG_UNBEGUN | (error ? FLAG_ERROR : 0);
	send(&io);
}

SEC("tp_btf/block_rq_complete")
int complete(u64 *arguments)
{
	struct request *rq = (void *)arguments[0];
	u32 error = (u32)arguments[1];
	u32 bytes = (u32)arguments[2];
	u64 key = (u64)rq;
	if (bytes < rq->__data_len && !error)
		return 0; // a part of it; the rest follows
	struct io *io = map_lookup(&IN_FLIGHT, &key);
	if (!io) {
		unbegun(rq, error);
		return 0;
	}
	io->latency_ns = now_ns() - io->issue_ns;
	if (error)
		io->flags |= FLAG_ERROR;
	send(io);
	count(COUNT_ENDED);
	map_delete(&IN_FLIGHT, &key);
	return 0;
}

// Handed back by the driver: its next issue counts, and not this one.
SEC("tp_btf/block_rq_requeue")
int requeue(u64 *arguments)
{
	u64 key = arguments[0];
	if (map_delete(&IN_FLIGHT, &key) == 0)
		count(COUNT_ENDED);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
