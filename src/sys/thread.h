#pragma once

/*
 * Comes first in every thread beside the one that runs the loop. Capabilities, no_new_privs and
 * Landlock belong to threads, not to processes: a thread that was started before the daemon gave them up would keep
 * them, and whoever takes the process over has all of its threads.
 * Aborts where that fails, which the kernel has no reason for.
 */
void atoll_thread_enter(void);
