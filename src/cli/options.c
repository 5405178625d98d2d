#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

/* Longer words are not compared: all names of options and verbs are much shorter. */
#define WORD_MAX 40

struct found {
    const struct atoll_cli_option *option;
    void *place; /* where its value is stored */
};

static bool is_end(const struct atoll_cli_option *row)
{
    return !row->name && !row->table;
}

/* Finds an option by name (n bytes) or, if name is NULL, by letter. */
static bool find(const struct atoll_cli_option *table, char *base, const char *name, size_t n,
                 char letter, struct found *ret)
{
    for (; !is_end(table); table++) {
        if (table->kind == ATOLL_CLI_TABLE) {
            if (find(table->table, base + table->offset, name, n, letter, ret))
                return true;
        } else if (name ? strlen(table->name) == n && memcmp(table->name, name, n) == 0
                        : table->letter == letter) {
            *ret = (struct found){table, base + table->offset};
            return true;
        }
    }
    return false;
}

const struct atoll_cli_option *atoll_cli_option_next(const struct atoll_cli_option *table,
                                                     size_t *pos)
{
    size_t wanted = *pos, at = 0;

    for (; !is_end(table); table++) {
        if (table->kind == ATOLL_CLI_TABLE) {
            const struct atoll_cli_option *inner;
            for (size_t i = 0; (inner = atoll_cli_option_next(table->table, &i)) != NULL;)
                if (at++ == wanted) {
                    ++*pos;
                    return inner;
                }
        } else if (at++ == wanted) {
            ++*pos;
            return table;
        }
    }
    return NULL;
}

/* Edit distance: how many letters must be changed, added, dropped or swapped with their neighbour. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    size_t na = strlen(a), nb = strlen(b);

    for (size_t j = 0; j <= nb; j++)
        last[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *spare = before;
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            d = ATOLL_MIN(d, ATOLL_MIN(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = ATOLL_MIN(d, before[j - 2] + 1);
            row[j] = d;
        }
        before = last;
        last = row;
        row = spare;
    }
    return last[nb];
}

const char *atoll_cli_nearest(const char *word, const char *(*next)(void *arg), void *arg)
{
    size_t n = strlen(word), best = n <= 3 ? 2 : n / 3 + 2; /* exclusive limit of the distance */
    const char *name, *nearest = NULL;

    if (n == 0 || n > WORD_MAX)
        return NULL;
    while ((name = next(arg)) != NULL) {
        size_t len = strlen(name);
        size_t d = len > WORD_MAX ? best : distance(word, name);
        /* A prefix of a name is close to that name. */
        if (len > n && n >= 3 && memcmp(word, name, n) == 0)
            d = 1;
        if (d < best && d < len) {
            best = d;
            nearest = name;
        }
    }
    return nearest;
}

struct walk {
    const struct atoll_cli_option *table;
    size_t pos;
};

static const char *next_name(void *arg)
{
    struct walk *walk = arg;
    const struct atoll_cli_option *option = atoll_cli_option_next(walk->table, &walk->pos);
    return option ? option->name : NULL;
}

static int fail_unknown(const struct atoll_cli_option *table, const char *name, size_t n,
                        struct atoll_error *err)
{
    char word[WORD_MAX + 1];
    struct walk walk = {table, 0};
    const char *nearest = NULL;

    if (n <= WORD_MAX) {
        memcpy(word, name, n);
        word[n] = '\0';
        nearest = atoll_cli_nearest(word, next_name, &walk);
    }
    if (nearest)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "unknown option --%.*s; did you mean --%s?", (int)n, name, nearest);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unknown option --%.*s", (int)n,
                      name);
}

static int add_to_list(struct atoll_cli_list *list, const char *name, const char *value,
                       struct atoll_error *err)
{
    if (list->n >= ATOLL_CLI_LIST_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "--%s is given more than %d times", name, ATOLL_CLI_LIST_MAX);
    list->items[list->n++] = value;
    return 0;
}

int atoll_cli_parse_time(const char *text, double *ret_seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    double total = 0, value;

    if (atoll_text_double(text, 0, 1e9, ret_seconds) == 0)
        return 0;
    if (!*text)
        return -EINVAL;
    while (*text) {
        size_t n = strspn(text, "0123456789."), letters = strcspn(text + n, "0123456789.");
        size_t i = 0;
        char number[32];
        while (i < ATOLL_ARRAY_LEN(units) &&
               (strlen(units[i].unit) != letters || memcmp(units[i].unit, text + n, letters) != 0))
            i++;
        if (n >= sizeof(number) || i == ATOLL_ARRAY_LEN(units))
            return -EINVAL;
        memcpy(number, text, n);
        number[n] = '\0';
        if (atoll_text_double(number, 0, 1e9, &value) < 0)
            return -EINVAL;
        total += value * units[i].seconds;
        text += n + letters;
    }
    *ret_seconds = total;
    return 0;
}

static int store(const struct found *found, const char *value, struct atoll_error *err)
{
    const struct atoll_cli_option *o = found->option;
    uint64_t *number = found->place;
    const char *want = NULL;

    switch (o->kind) {
    case ATOLL_CLI_FLAG:
        *(bool *)found->place = true;
        break;
    case ATOLL_CLI_TEXT:
        *(const char **)found->place = value;
        break;
    case ATOLL_CLI_LIST:
        return add_to_list(found->place, o->name, value, err);
    case ATOLL_CLI_SIZE:
        if (atoll_text_size(value, number) < 0 || *number == 0)
            want = "a size such as 512M or 2G";
        break;
    case ATOLL_CLI_COUNT:
        if (atoll_text_u64(value, 1, INT32_MAX, number) < 0)
            want = "a whole number above 0";
        break;
    case ATOLL_CLI_DECIMAL:
        if (atoll_text_double(value, 0.001, 1e9, found->place) < 0)
            want = "a number above 0 such as 1.5";
        break;
    case ATOLL_CLI_TIME:
        if (atoll_cli_parse_time(value, found->place) < 0 || *(double *)found->place < 0.001 ||
            *(double *)found->place > 1e9)
            want = "a time such as 30 (seconds), 5m or 1h30m";
        break;
    case ATOLL_CLI_TABLE:
        break;
    }
    if (want)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--%s: %s is not %s", o->name,
                          *value ? value : "\"\"", want);
    return 0;
}

static int need_value(const struct atoll_cli_option *option, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--%s needs a value: --%s %s",
                      option->name, option->name, option->value);
}

/* "--name", "--name=value" or "--name value"; returns how many arguments that took. */
static int parse_long(const struct atoll_cli_option *table, void *options, char **argv,
                      struct atoll_error *err)
{
    const char *name = argv[0] + 2;
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    struct found found;
    int r, used = 1;

    if (!find(table, options, name, n, 0, &found))
        return fail_unknown(table, name, n, err);
    if (found.option->kind == ATOLL_CLI_FLAG && value)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--%.*s takes no value", (int)n,
                          name);
    if (found.option->kind != ATOLL_CLI_FLAG && !value) {
        value = argv[1];
        used = 2;
    }
    if (used == 2 && !value)
        return need_value(found.option, err);
    r = store(&found, value, err);
    return r < 0 ? r : used;
}

/* "-i", "-it", "-eVALUE" or "-e VALUE"; returns how many arguments that took. */
static int parse_short(const struct atoll_cli_option *table, void *options, char **argv,
                       struct atoll_error *err)
{
    for (const char *p = argv[0] + 1; *p; p++) {
        struct found found;
        const char *value;
        int r;
        if (!find(table, options, NULL, 0, *p, &found))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unknown option -%c", *p);
        if (found.option->kind == ATOLL_CLI_FLAG) {
            r = store(&found, NULL, err);
            if (r < 0)
                return r;
            continue;
        }
        value = p[1] ? p + 1 : argv[1];
        if (!value)
            return need_value(found.option, err);
        r = store(&found, value, err);
        return r < 0 ? r : p[1] ? 1 : 2;
    }
    return 1;
}

int atoll_cli_parse(const struct atoll_cli_option *table, int command_at, char **argv,
                    void *options, int *ret_argc, struct atoll_error *err)
{
    int kept = 0;
    char **rest = argv;

    while (*rest && strcmp(*rest, "--") != 0) {
        int r;
        /* A lone "-" is an argument: standard input or output. */
        if (rest[0][0] != '-' || !rest[0][1]) {
            if (kept == command_at)
                break;
            argv[kept++] = *rest++;
            continue;
        }
        r = rest[0][1] == '-' ? parse_long(table, options, rest, err)
                              : parse_short(table, options, rest, err);
        if (r < 0)
            return r;
        rest += r;
    }
    if (*rest && strcmp(*rest, "--") == 0)
        rest++;
    while (*rest)
        argv[kept++] = *rest++;
    argv[kept] = NULL;
    *ret_argc = kept;
    return 0;
}
