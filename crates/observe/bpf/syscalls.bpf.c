// The kernel's half of `--syscalls`: system calls of the driver, the pooler and the server's
// processes, counted and timed by process and number. No event is sent: sums stay here until they
// are read. `cargo xtask bpf` builds the object beside this.
//
// A kernel whose calls are traced takes another way in and out of each, whatever the programs do; so
// they are there in windows only. Time is that of a clock that stands still between windows. A call
// that a thread was at when a window closed counts up to then, one that it is first seen to come back
// from as begun then: in windows between the thread was not seen to do anything else.
#include "../../iotrace/bpf/kernel.h"

static struct task_struct *(*this_task)(void) = (void *)158;
static u64 (*this_pid)(void) = (void *)14;
static long (*map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*map_pop)(void *map, void *value) = (void *)88;

enum { MAP_QUEUE = 22 };
enum { ANY = 0, IF_ABSENT = 1 };

// Set by the loader.
const volatile u32 DRIVER = 0;     // the process that loads this
const volatile u32 POOLER = 0;     // 0: none
const volatile u32 POSTMASTER = 0; // with its children; 0: none
const volatile u32 EXIT_GROUP = 0; // number of the call that ends a process

#define THREADS (1 << 16)
#define PROCESSES (1 << 11)
#define NUMBERS 512 // of calls; what is beyond counts as the last

// What a thread is at. Threads whose numbers are alike in their last bits have one between them:
// whoever begins a call takes it over. Found by index alone, as all that every call passes through;
// hashed tables took 90 ns more of each.
struct under_way {
	u64 began_ns; // 0: it is at no call
	u64 thread;   // 0: nobody's
	u64 number;
	u64 place;  // of its process
	u64 window; // in which it was last seen
};

// Of the windows, in the order in which they open.
#define WINDOWS (1 << 16)

struct window {
	u64 closed_ns; // time without windows, until this one opened
	u64 number;    // 0: none is open, while programs come and go
};

struct sum {
	u64 count;
	u64 ns;
};

struct sums {
	struct sum of[NUMBERS];
};

#define TITLE 160

struct title {
	char text[TITLE];
};

MAP(UNDER_WAY, MAP_ARRAY, THREADS, u32, struct under_way);
MAP(SUMS, MAP_ARRAY, PROCESSES, u32, struct sums);
// Where a process has its sums, and the places that are free.
MAP(PLACES, MAP_HASH, PROCESSES, u32, u32);
struct {
	int (*type)[MAP_QUEUE];
	int (*max_entries)[PROCESSES];
	u32 *value;
} FREE SEC(".maps");
// The window that is open, and when windows opened, by the clock of windows.
MAP(WINDOW, MAP_ARRAY, 1, u32, struct window);
MAP(OPENED, MAP_ARRAY, WINDOWS, u32, u64);
// What processes were called when they ended.
MAP(TITLES, MAP_LRU_HASH, 1 << 13, u32, struct title);
// Calls that are in no sum.
MAP(LOST, MAP_PERCPU_ARRAY, 1, u32, u64);

INLINE void lose(void)
{
	u32 zero = 0;
	u64 *value = map_lookup(&LOST, &zero);
	if (value)
		*value += 1; // of this CPU alone, which is not preempted here
}

INLINE void tell_title(void)
{
	struct task_struct *task = this_task();
	u32 process = task->tgid;
	struct mm_struct *mm = READ(task, mm);
	struct title title = {};
	if (mm && read_user(title.text, TITLE, (void *)READ(mm, arg_start)) == 0)
		map_update(&TITLES, &process, &title, ANY);
}

INLINE struct under_way *of_thread(u32 thread)
{
	u32 at = thread % THREADS;
	return map_lookup(&UNDER_WAY, &at);
}

INLINE struct window *open_window(void)
{
	u32 zero = 0;
	return map_lookup(&WINDOW, &zero);
}

// When that window closed, by the clock of windows: when the next one opened.
INLINE u64 closing_ns(u64 window)
{
	u32 at = (window + 1) % WINDOWS;
	u64 *opened = map_lookup(&OPENED, &at);
	return opened ? *opened : 0;
}

INLINE void add(struct under_way *mine, u64 number, u64 calls, u64 ns)
{
	u32 place = mine->place;
	struct sums *sums = map_lookup(&SUMS, &place);
	if (!sums)
		return;
	struct sum *sum = &sums->of[number % NUMBERS];
	// A process may have several threads.
	if (calls)
		__sync_fetch_and_add(&sum->count, calls);
	__sync_fetch_and_add(&sum->ns, ns);
}

// Seen for the first time in this window: the call that it was at when an earlier one closed took
// until then at least. Gives that moment.
INLINE u64 catch_up(struct under_way *mine, u64 window)
{
	u64 closed_ns = closing_ns(mine->window);
	if (mine->began_ns)
		add(mine, mine->number, 0, closed_ns - mine->began_ns);
	mine->began_ns = 0;
	mine->window = window;
	tell_title(); // who ends between windows does not tell it then
	return closed_ns;
}

// Where a process has its sums, which it is given at its first call.
INLINE bool find_place(u32 process, u32 *place)
{
	u32 *known = map_lookup(&PLACES, &process);
	if (!known) {
		if (map_pop(&FREE, place))
			return 0;
		if (map_update(&PLACES, &process, place, IF_ABSENT) == 0)
			return 1;
		// Another of its threads was first.
		map_push(&FREE, place, ANY);
		known = map_lookup(&PLACES, &process);
		if (!known)
			return 0;
	}
	*place = *known;
	return 1;
}

// Makes it this thread's, if its process is one of those that are watched.
INLINE bool take_over(struct under_way *mine, u32 thread, u64 window)
{
	struct task_struct *task = this_task();
	u32 process = task->tgid;
	if (process != DRIVER && process != POOLER && process != POSTMASTER &&
	    (!POSTMASTER || (u32)task->real_parent->tgid != POSTMASTER))
		return 0;
	u32 place;
	if (!find_place(process, &place)) {
		lose();
		return 0;
	}
	if (mine->began_ns)
		lose(); // the call that the other is at
	mine->began_ns = 0;
	mine->thread = thread;
	mine->place = place;
	mine->window = window;
	return 1;
}

// By the processor's own name of the register that has it, or of the field.
INLINE u64 call_of(u64 registers)
{
	if (FIELD_EXISTS(struct pt_regs, orig_ax))
		return READ((struct pt_regs *)registers, orig_ax);
	return (u32)READ((struct pt_regs___arm64 *)registers, syscallno);
}

// Numbers of calls end somewhere; -1 is none.
INLINE u64 call(u64 number)
{
	return number < NUMBERS ? number : NUMBERS - 1;
}

SEC("tp_btf/sys_enter")
int enter(u64 *arguments)
{
	u32 thread = (u32)this_pid();
	struct under_way *mine = of_thread(thread);
	struct window *window = open_window();
	if (!mine || !window || !window->number)
		return 0;
	if (mine->thread != thread && !take_over(mine, thread, window->number))
		return 0;
	if (mine->window != window->number)
		catch_up(mine, window->number);
	u64 number = arguments[1];
	if (number == EXIT_GROUP)
		tell_title();
	mine->number = call(number);
	mine->began_ns = now_ns() - window->closed_ns;
	return 0;
}

SEC("tp_btf/sys_exit")
int leave(u64 *arguments)
{
	u32 thread = (u32)this_pid();
	struct under_way *mine = of_thread(thread);
	struct window *window = open_window();
	if (!mine || !window || !window->number || mine->thread != thread)
		return 0;
	u64 number = mine->number;
	u64 began_ns = mine->began_ns;
	if (mine->window != window->number) {
		// It began between windows, or in an earlier one.
		number = call(call_of(arguments[0]));
		began_ns = catch_up(mine, window->number);
	}
	if (!began_ns)
		return 0;
	mine->began_ns = 0;
	add(mine, number, 1, now_ns() - window->closed_ns - began_ns);
	return 0;
}

// A thread that has ended is at nothing, and another may be given its number.
SEC("tp_btf/sched_process_exit")
int ended(u64 *arguments)
{
	u32 thread = (u32)this_pid();
	struct under_way *mine = of_thread(thread);
	if (mine && mine->thread == thread) {
		mine->began_ns = 0;
		mine->thread = 0;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
