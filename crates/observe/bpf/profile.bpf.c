// The kernel's half of `--profile`: what a CPU executes when its clock ticks, with the callers, of
// the driver, the pooler, the server's processes and kernel threads. `cargo xtask bpf` builds the
// object beside this.
#include "../../iotrace/bpf/kernel.h"

static long (*get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;

enum { USER_STACK = 1 << 8 };
enum { KERNEL_THREAD = 0x00200000 }; // PF_KTHREAD

// Set by the loader.
const volatile u32 DRIVER = 0;     // the process that loads this
const volatile u32 POOLER = 0;     // 0: none
const volatile u32 POSTMASTER = 0; // with its children; 0: none

enum { IS_DRIVER, IS_POOLER, IS_POSTMASTER, IS_CHILD, IS_KERNEL };

#define TITLE 160
#define STACK_BYTES (127 * 8) // kernel.perf_event_max_stack, as it comes

// The record, cut off behind its last address; `src/profile/kernel.rs` reads it.
struct sample {
	u64 at_ns;
	u64 started; // when the process did
	u32 process;
	u32 who; // IS_*
	u32 kernel_bytes;
	u32 user_bytes;
	char title[TITLE];
	u64 stacks[2 * STACK_BYTES / 8]; // the kernel's, then the user's; innermost first
};

#define HEAD_BYTES __builtin_offsetof(struct sample, stacks)

enum {
	COUNT_LOOKS, // at CPUs, whatever they did
	COUNT_NS,    // in this program
	COUNT_LOST,  // samples for which there was no room
	COUNTS,
};

RING(SAMPLES, 1 << 20);
MAP(SCRATCH, MAP_PERCPU_ARRAY, 1, u32, struct sample);
MAP(COUNTERS, MAP_PERCPU_ARRAY, COUNTS, u32, u64);

INLINE void count(u32 what, u64 more)
{
	u64 *value = map_lookup(&COUNTERS, &what);
	if (value)
		*value += more; // of this CPU alone, which is not preempted here
}

INLINE s32 who(struct task_struct *task, u32 process)
{
	if (process == DRIVER)
		return IS_DRIVER;
	if (POOLER && process == POOLER)
		return IS_POOLER;
	if (READ(task, flags) & KERNEL_THREAD)
		return IS_KERNEL;
	if (!POSTMASTER)
		return -1;
	if (process == POSTMASTER)
		return IS_POSTMASTER;
	struct task_struct *leader = READ(task, group_leader);
	struct task_struct *parent = READ(leader, real_parent);
	return (u32)READ(parent, tgid) == POSTMASTER ? IS_CHILD : -1;
}

INLINE void take(void *context, u64 now)
{
	struct task_struct *task = (void *)current_task();
	u32 process = READ(task, tgid);
	if (!process)
		return; // an idle CPU
	s32 is = who(task, process);
	if (is < 0)
		return;
	u32 zero = 0;
	struct sample *sample = map_lookup(&SCRATCH, &zero);
	if (!sample)
		return;
	struct task_struct *leader = READ(task, group_leader);
	sample->at_ns = now;
	sample->started = READ(leader, start_time);
	sample->process = process;
	sample->who = is;
	sample->title[0] = 0;
	struct mm_struct *mm = READ(task, mm);
	if (mm && is == IS_CHILD)
		read_user(sample->title, TITLE, (void *)READ(mm, arg_start));
	long kernel = get_stack(context, sample->stacks, STACK_BYTES, 0);
	if (kernel < 0 || kernel > STACK_BYTES)
		kernel = 0;
	long user = 0;
	if (mm)
		user = get_stack(context, (char *)sample->stacks + kernel, STACK_BYTES, USER_STACK);
	if (user < 0 || user > STACK_BYTES)
		user = 0;
	sample->kernel_bytes = kernel;
	sample->user_bytes = user;
	if (ring_output(&SAMPLES, sample, HEAD_BYTES + kernel + user, RING_NO_WAKEUP))
		count(COUNT_LOST, 1);
}

SEC("perf_event")
int look(void *context)
{
	u64 now = now_ns();
	take(context, now);
	count(COUNT_NS, now_ns() - now);
	count(COUNT_LOOKS, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
