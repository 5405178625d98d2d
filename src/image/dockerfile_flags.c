/*
 * Flags of instructions, as a table: a flag is one row.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "image/dockerfile_internal.h"
#include "image/mount.h"

#define FROM ATOLL_RECIPE_KINDS
#define MS_NS 1000000
#define RETRIES_MAX 2147483647u

enum type { TEXT, BOOLEAN, CHOICE, EXCLUDE, MOUNT, DURATION, RETRIES };

struct row {
    enum atoll_recipe_kind kind;
    const char *name;
    enum type type;
    size_t offset; /* in the step */
};

#define FLAG(member) offsetof(struct atoll_recipe_step, flags.member)
#define HEALTH(member) offsetof(struct atoll_recipe_step, health.member)

static const struct row rows[] = {
    {ATOLL_RECIPE_ADD, "chown", TEXT, FLAG(chown)},
    {ATOLL_RECIPE_ADD, "chmod", TEXT, FLAG(chmod)},
    {ATOLL_RECIPE_ADD, "link", BOOLEAN, FLAG(link)},
    {ATOLL_RECIPE_ADD, "keep-git-dir", BOOLEAN, FLAG(keep_git_dir)},
    {ATOLL_RECIPE_ADD, "checksum", TEXT, FLAG(checksum)},
    {ATOLL_RECIPE_ADD, "unpack", CHOICE, FLAG(unpack)},
    {ATOLL_RECIPE_ADD, "exclude", EXCLUDE, 0},
    {ATOLL_RECIPE_COPY, "from", TEXT, FLAG(from)},
    {ATOLL_RECIPE_COPY, "chown", TEXT, FLAG(chown)},
    {ATOLL_RECIPE_COPY, "chmod", TEXT, FLAG(chmod)},
    {ATOLL_RECIPE_COPY, "link", BOOLEAN, FLAG(link)},
    {ATOLL_RECIPE_COPY, "parents", BOOLEAN, FLAG(parents)},
    {ATOLL_RECIPE_COPY, "exclude", EXCLUDE, 0},
    {ATOLL_RECIPE_RUN, "mount", MOUNT, 0},
    {ATOLL_RECIPE_RUN, "network", TEXT, FLAG(network)},
    {ATOLL_RECIPE_RUN, "security", TEXT, FLAG(security)},
    {ATOLL_RECIPE_HEALTHCHECK, "interval", DURATION, HEALTH(interval_ns)},
    {ATOLL_RECIPE_HEALTHCHECK, "timeout", DURATION, HEALTH(timeout_ns)},
    {ATOLL_RECIPE_HEALTHCHECK, "start-period", DURATION, HEALTH(start_ns)},
    {ATOLL_RECIPE_HEALTHCHECK, "start-interval", DURATION, HEALTH(start_interval_ns)},
    {ATOLL_RECIPE_HEALTHCHECK, "retries", RETRIES, HEALTH(retries)},
    {FROM, "platform", TEXT, 0},
};

/* What is being filled. */
struct target {
    struct atoll_recipe_memory *memory;
    struct atoll_recipe_step *step;
    const char **platform;
    struct atoll_recipe_words excludes;
    struct atoll_recipe_mount *mounts;
    unsigned long seen; /* bit per row */
    struct atoll_error *err;
};

static int read_bool(struct target *t, const struct row *row, const char *value, bool *ret)
{
    if (value && strcasecmp(value, "true") != 0 && strcasecmp(value, "false") != 0)
        return atoll_recipe_refuse(t->err, 0, "the flag --%s is true or false, not \"%.40s\"",
                                   row->name, value);
    *ret = !value || strcasecmp(value, "true") == 0;
    return 0;
}

/* A duration of Go: "1h30m", "1.5s", "300ms". */
static int read_duration(const char *text, int64_t *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},  {"us", 1e3}, {"µs", 1e3},  {"ms", 1e6},
                 {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double sum = 0;

    if (strcmp(text, "0") == 0)
        text = "0s";
    do {
        size_t digits = strspn(text, "0123456789."), unit, i;
        char number[32];
        double value;
        if (digits == 0 || digits >= sizeof(number))
            return -EINVAL;
        memcpy(number, text, digits);
        number[digits] = '\0';
        if (atoll_text_double(number, 0, 1e9, &value) < 0)
            return -EINVAL;
        text += digits;
        unit = strcspn(text, "0123456789.");
        for (i = 0; i < ATOLL_ARRAY_LEN(units); i++)
            if (strlen(units[i].name) == unit && memcmp(units[i].name, text, unit) == 0)
                break;
        if (i == ATOLL_ARRAY_LEN(units))
            return -EINVAL;
        sum += value * units[i].ns;
        text += unit;
    } while (*text);
    if (sum > 9e18)
        return -ERANGE;
    *ret_ns = (int64_t)sum;
    return 0;
}

static int set_duration(struct target *t, const struct row *row, const char *value, int64_t *ret)
{
    int64_t ns;

    if (read_duration(value, &ns) < 0 || (ns > 0 && ns < MS_NS))
        return atoll_recipe_refuse(
            t->err, 0, "the flag --%s is a duration of at least 1ms, such as 30s or 1m30s",
            row->name);
    *ret = ns;
    return 0;
}

static int add_mount(struct target *t, const char *value)
{
    struct atoll_recipe_flags *flags = &t->step->flags;

    if (flags->mount_count == ATOLL_RECIPE_WORDS_MAX)
        return atoll_recipe_no_room(t->err);
    t->mounts = atoll_recipe_grow(t->memory, t->mounts, flags->mount_count, sizeof(*t->mounts));
    if (!t->mounts)
        return atoll_recipe_no_room(t->err);
    if (atoll_recipe_mount_parse(t->memory, value, NULL, &t->mounts[flags->mount_count], t->err) <
        0)
        return -EINVAL;
    flags->mounts = t->mounts;
    flags->mount_count++;
    return 0;
}

static int set_text(struct target *t, const struct row *row, const char *value)
{
    const char *copy = atoll_recipe_text(t->memory, value, strlen(value));
    void *place = row->kind == FROM ? (void *)t->platform : (char *)t->step + row->offset;

    if (!copy)
        return atoll_recipe_no_room(t->err);
    memcpy(place, &copy, sizeof(copy));
    return 0;
}

/* `value` is NULL when the flag has no "=". */
static int set_flag(struct target *t, const struct row *row, const char *value)
{
    char *place = (char *)t->step + row->offset;
    uint64_t number;
    bool on;

    if (value ? !*value && row->type == BOOLEAN : row->type != BOOLEAN && row->type != CHOICE)
        return atoll_recipe_refuse(t->err, 0, "the flag --%s needs a value", row->name);
    switch (row->type) {
    case TEXT:
        return set_text(t, row, value);
    case BOOLEAN:
        return read_bool(t, row, value, (bool *)place);
    case CHOICE:
        if (read_bool(t, row, value, &on) < 0)
            return -EINVAL;
        *(int8_t *)place = on ? 1 : 0;
        return 0;
    case EXCLUDE:
        return atoll_recipe_add_word(t->memory, &t->excludes, value, strlen(value), t->err);
    case MOUNT:
        return add_mount(t, value);
    case DURATION:
        return set_duration(t, row, value, (int64_t *)(void *)place);
    case RETRIES:
        if (atoll_text_u64(value, 0, RETRIES_MAX, &number) < 0)
            return atoll_recipe_refuse(t->err, 0, "the flag --retries is a number from 0 up");
        *(int64_t *)(void *)place = (int64_t)number;
        return 0;
    }
    return 0;
}

static const char *kind_name(enum atoll_recipe_kind kind)
{
    return kind == FROM ? "FROM" : atoll_recipe_kind_name(kind);
}

static int read_one(struct target *t, enum atoll_recipe_kind kind, const char *flag)
{
    const char *name = flag + 2, *equals = strchr(flag, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        if (row->kind != kind || strlen(row->name) != n || memcmp(row->name, name, n) != 0)
            continue;
        if ((t->seen & 1ul << i) && row->type != EXCLUDE && row->type != MOUNT)
            return atoll_recipe_refuse(t->err, 0, "the flag --%s is given twice", row->name);
        t->seen |= 1ul << i;
        return set_flag(t, row, equals ? equals + 1 : NULL);
    }
    return atoll_recipe_refuse(t->err, 0, "%s has no flag --%.*s", kind_name(kind),
                               (int)ATOLL_MIN(n, (size_t)40), name);
}

static int check_choice(struct target *t, const char *flag, const char *value, const char *one,
                        const char *two, const char *three)
{
    if (!value || strcmp(value, one) == 0 || strcmp(value, two) == 0 ||
        (three && strcmp(value, three) == 0))
        return 0;
    return atoll_recipe_refuse(t->err, 0, "the flag --%s is %s%s%s or %s", flag, one,
                               three ? ", " : "", three ? three : "", two);
}

int atoll_dockerfile_flags(struct atoll_recipe_memory *m, const struct atoll_recipe_words *flags,
                           enum atoll_recipe_kind kind, struct atoll_recipe_step *step,
                           const char **platform, struct atoll_error *err)
{
    struct target t = {.memory = m, .step = step, .platform = platform, .err = err};
    int r = 0;

    step->flags.unpack = -1;
    for (size_t i = 0; r == 0 && i < flags->count; i++)
        r = read_one(&t, kind, flags->items[i]);
    step->flags.excludes = t.excludes.items;
    step->flags.exclude_count = t.excludes.count;
    if (r == 0)
        r = check_choice(&t, "network", step->flags.network, "default", "host", "none");
    if (r == 0)
        r = check_choice(&t, "security", step->flags.security, "sandbox", "insecure", NULL);
    return r;
}
