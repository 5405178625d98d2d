/* Runs a fuzz target over files: to reproduce a finding, and to replay a corpus as a test. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"

#define INPUT_MAX ((size_t)1024 * 1024)

static size_t replayed;

static int replay_file(const char *path)
{
    uint8_t *data = malloc(INPUT_MAX);
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f || !data) {
        perror(path);
        free(data);
        if (f)
            fclose(f);
        return 1;
    }
    n = fread(data, 1, INPUT_MAX, f);
    fclose(f);
    (void)LLVMFuzzerTestOneInput(data, n);
    free(data);
    replayed++;
    return 0;
}

static int replay_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int failed = 0;

    if (!dir) {
        perror(path);
        return 1;
    }
    while ((entry = readdir(dir))) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        failed |= replay_file(name);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool is_dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed |= is_dir ? replay_dir(argv[i]) : replay_file(argv[i]);
    }
    printf("%zu inputs replayed\n", replayed);
    return failed;
}
