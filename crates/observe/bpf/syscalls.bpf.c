// The kernel's half of `--syscalls`: system calls of the driver, the pooler and the server's
// processes, counted and timed by process and number. No event is sent: sums stay here until they
// are read. `cargo xtask bpf` builds the object beside this.
#include "../../iotrace/bpf/kernel.h"

static struct task_struct *(*this_task)(void) = (void *)158;
static u64 (*this_pid)(void) = (void *)14;

enum { MAP_PERCPU_HASH = 5 };

// Set by the loader.
const volatile u32 DRIVER = 0;     // the process that loads this
const volatile u32 POOLER = 0;     // 0: none
const volatile u32 POSTMASTER = 0; // with its children; 0: none
const volatile u32 EXIT_GROUP = 0; // number of the call that ends a process

struct under_way {
	u64 began_ns;
	u32 process;
	u32 number;
};

struct key {
	u32 process;
	u32 number;
};

struct sum {
	u64 count;
	u64 ns;
};

#define TITLE 160

struct title {
	char text[TITLE];
};

enum {
	COUNT_CALLS,   // ended, of those that were seen to begin
	COUNT_LOST,    // for which there was no room
	COUNTS,
};

MAP(UNDER_WAY, MAP_HASH, 1 << 16, u32, struct under_way);
MAP(SUMS, MAP_PERCPU_HASH, 1 << 14, struct key, struct sum);
// What processes were called when they ended.
MAP(TITLES, MAP_LRU_HASH, 1 << 13, u32, struct title);
MAP(COUNTERS, MAP_PERCPU_ARRAY, COUNTS, u32, u64);

INLINE void count(u32 what)
{
	u64 *value = map_lookup(&COUNTERS, &what);
	if (value)
		*value += 1; // of this CPU alone, which is not preempted here
}

INLINE void tell_title(struct task_struct *task, u32 process)
{
	struct mm_struct *mm = READ(task, mm);
	struct title title = {};
	if (mm && read_user(title.text, TITLE, (void *)READ(mm, arg_start)) == 0)
		map_update(&TITLES, &process, &title, 0);
}

SEC("tp_btf/sys_enter")
int enter(u64 *arguments)
{
	struct task_struct *task = this_task();
	u32 process = task->tgid;
	bool child = 0;
	if (process != DRIVER && process != POOLER && process != POSTMASTER) {
		if (!POSTMASTER || (u32)task->real_parent->tgid != POSTMASTER)
			return 0;
		child = 1;
	}
	u32 number = (u32)arguments[1];
	if (child && number == EXIT_GROUP)
		tell_title(task, process);
	u32 thread = (u32)this_pid();
	struct under_way *begun = map_lookup(&UNDER_WAY, &thread);
	if (begun) {
		// Only this thread writes here. Cheaper than an update, which locks.
		begun->process = process;
		begun->number = number;
		begun->began_ns = now_ns();
		return 0;
	}
	struct under_way first = { .process = process, .number = number };
	first.began_ns = now_ns();
	if (map_update(&UNDER_WAY, &thread, &first, 0))
		count(COUNT_LOST);
	return 0;
}

SEC("tp_btf/sys_exit")
int leave(u64 *arguments)
{
	u32 thread = (u32)this_pid();
	struct under_way *begun = map_lookup(&UNDER_WAY, &thread);
	if (!begun || !begun->began_ns)
		return 0;
	u64 took_ns = now_ns() - begun->began_ns;
	begun->began_ns = 0;
	struct key key = { .process = begun->process, .number = begun->number };
	struct sum *sum = map_lookup(&SUMS, &key);
	if (!sum) {
		struct sum none = {};
		map_update(&SUMS, &key, &none, 1);
		sum = map_lookup(&SUMS, &key);
	}
	if (!sum) {
		count(COUNT_LOST);
		return 0;
	}
	sum->count += 1;
	sum->ns += took_ns;
	count(COUNT_CALLS);
	return 0;
}

// A thread that has ended is not under way.
SEC("tp_btf/sched_process_exit")
int ended(u64 *arguments)
{
	u32 thread = (u32)this_pid();
	map_delete(&UNDER_WAY, &thread);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
