#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "task/task_internal.h"

#define WORDS_MAX 40 /* bytes of the instruction in the name of a branch */

void atoll_task_branch_name(const char *instruction, const char *id,
                            char out[static ATOLL_TASK_BRANCH_MAX])
{
    char words[WORDS_MAX + 1];
    size_t n = 0;

    for (const char *p = instruction; *p && n < WORDS_MAX; p++) {
        if (isascii(*p) && isalnum((unsigned char)*p))
            words[n++] = (char)tolower((unsigned char)*p);
        else if (n > 0 && words[n - 1] != '-')
            words[n++] = '-';
    }
    while (n > 0 && words[n - 1] == '-')
        n--;
    words[n] = '\0';
    (void)snprintf(out, ATOLL_TASK_BRANCH_MAX, "atoll/%s%s%.6s", words, n > 0 ? "-" : "", id);
}

void atoll_task_subject(const char *instruction, char out[static 80])
{
    const char *begin = instruction + strspn(instruction, " \t\r\n");
    size_t n = strcspn(begin, "\r\n");

    if (n > 72)
        for (n = 69; n > 0 && ((unsigned char)begin[n] & 0xc0) == 0x80; n--)
            ; /* whole characters */
    (void)snprintf(out, 80, "%.*s%s", (int)n, begin, strcspn(begin, "\r\n") > 72 ? "…" : "");
    if (!*out)
        (void)snprintf(out, 80, "Work of an agent");
}
