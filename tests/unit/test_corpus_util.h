#pragma once
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Runs each file of a directory, given from the top of the sources, through the fuzz target of the
 * test. at_least guards against a corpus that is not there. */
static inline void replay_corpus(const char *path, size_t at_least)
{
    static uint8_t data[256 * 1024];
    const char *top = getenv("ATOLL_SOURCE_DIR");
    char name[4096];
    struct dirent *entry;
    size_t replayed = 0;
    DIR *dir;

    snprintf(name, sizeof(name), "%s/%s", top ? top : ".", path);
    dir = opendir(name);
    if (!dir)
        fail_msg("%s is not there; set ATOLL_SOURCE_DIR", name);
    while ((entry = readdir(dir))) {
        FILE *f;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%s/%s/%s", top ? top : ".", path, entry->d_name);
        f = fopen(name, "rb");
        assert_non_null(f);
        (void)LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), f));
        fclose(f);
        replayed++;
    }
    closedir(dir);
    assert_true(replayed >= at_least);
}
