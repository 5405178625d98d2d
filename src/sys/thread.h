#pragma once

/*
 * Every thread except the loop's calls this first: drops all capabilities, sets no_new_privs and
 * enters Landlock. These are attributes of threads, not of processes: a thread that was started
 * before the daemon dropped its privileges would keep them, and an attacker who controls the
 * process controls all of its threads. Aborts on failure, which is not expected.
 */
void atoll_thread_enter(void);
