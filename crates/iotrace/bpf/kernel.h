// What the tracer needs of the kernel's types and of the BPF helpers, and no more: offsets and
// values here do not count, the loader puts those of the running kernel in their place (CO-RE).
// Field names are as of Linux 5.16 to 6.18.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// Helpers by number: include/uapi/linux/bpf.h.
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*now_ns)(void) = (void *)5;
static u64 (*current_task)(void) = (void *)35;
static long (*read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *data, u64 flags) = (void *)132;
static u64 (*ring_query)(void *ring, u64 flags) = (void *)134;

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
enum { RING_NO_WAKEUP = 1, RING_FORCE_WAKEUP = 2, RING_QUERY_UNREAD = 0 };

// Maps as the loader reads them from the object's type information.
#define MAP(name, kind, entries, key_type, value_type)    \
	struct {                                          \
		int (*type)[kind];                        \
		int (*max_entries)[entries];              \
		key_type *key;                            \
		value_type *value;                        \
	} name SEC(".maps")
#define RING(name, bytes)                                 \
	struct {                                          \
		int (*type)[MAP_RINGBUF];                 \
		int (*max_entries)[bytes];                \
	} name SEC(".maps")

// Reads a field of a kernel structure by whatever offset it has here.
#define READ(from, field)                                                                     \
	({                                                                                    \
		typeof((from)->field) value = 0;                                              \
		read_kernel(&value, sizeof(value), __builtin_preserve_access_index(&(from)->field)); \
		value;                                                                        \
	})
#define OFFSET_OF(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define FIELD_EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)
// The running kernel's value of an enumerator, and whether it has it.
#define ENUM(type, name) __builtin_preserve_enum_value(*(type *)name, 1)
#define ENUM_EXISTS(type, name) __builtin_preserve_enum_value(*(type *)name, 0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct address_space {
	struct inode *host;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct page {
	unsigned long compound_head;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

struct bio_vec {
	struct page *bv_page;
	u32 bv_len;
	u32 bv_offset;
};

struct bvec_iter {
	u32 bi_idx;
	u32 bi_bvec_done;
};

struct bio {
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};

struct gendisk {
	s32 major;
	s32 first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
	u64 start_time_ns;
	struct bio *bio;
	struct bio *biotail;
};

struct mm_struct {
	unsigned long arg_start;
};

struct pt_regs {
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	s32 syscallno;
};

struct task_struct {
	u32 flags;
	s32 tgid;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_time;
	char comm[16];
};

// Their numbers differ from kernel to kernel.
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_PRIO = 13,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
	__REQ_BACKGROUND = 20,
	__REQ_SWAP = 24,
};

enum pageflags {
	PG_writeback = 1,
};

#pragma clang attribute pop
