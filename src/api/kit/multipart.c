#include "api/kit/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"

/* Parameters as in "; name=value; name=\"va\\\"lue\"", parsed in place. */

/* Returns the value of a parameter, which ends at *end; NULL if it is malformed. */
static char *take_value(char *p, char **end)
{
    char *value = p, *out = p;

    if (*p != '"') {
        p += strcspn(p, ";" BLANKS);
        *end = p;
        return value;
    }
    for (p++; *p && *p != '"'; p++) {
        /* Other backslashes are literal: browsers send Windows paths unescaped. */
        if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
            p++;
        *out++ = *p;
    }
    if (*p != '"')
        return NULL;
    *out = '\0';
    *end = p + 1;
    return value;
}

/* Terminates the value with a NUL; the first parameter of that name counts. NULL if there is
 * none. */
static char *find_parameter(char *text, const char *name)
{
    size_t n = strlen(name);
    char *p = text + strcspn(text, ";"), *value, *end;

    while (*p == ';') {
        bool wanted;
        p++;
        p += strspn(p, BLANKS);
        wanted = strncasecmp(p, name, n) == 0 && p[n] == '=';
        p += strcspn(p, "=;");
        if (*p == ';')
            continue;
        if (*p == '\0')
            return NULL;
        value = take_value(p + 1, &end);
        if (!value)
            return NULL;
        if (wanted) {
            *end = '\0';
            return value;
        }
        p = end + strcspn(end, ";");
    }
    return NULL;
}

int atoll_multipart_init(struct atoll_multipart *m, const char *content_type)
{
    static const char type[] = "multipart/form-data";
    char copy[512];
    const char *boundary;
    size_t n;

    *m = (struct atoll_multipart){0};
    if (!content_type || strlen(content_type) >= sizeof(copy) ||
        strncasecmp(content_type, type, sizeof(type) - 1) != 0)
        return -EINVAL;
    (void)snprintf(copy, sizeof(copy), "%s", content_type);
    boundary = find_parameter(copy, "boundary");
    n = boundary ? strlen(boundary) : 0;
    if (n == 0 || n > ATOLL_MULTIPART_BOUNDARY_MAX || strpbrk(boundary, "\r\n"))
        return -EINVAL;
    m->delimiter_len = (size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s", boundary);
    m->matched = 2; /* the first delimiter may start the body, without CR LF */
    return 0;
}

/* Reads data up to the next delimiter; data before the first delimiter is discarded. */
static int scan(struct atoll_multipart *m, const uint8_t **p, size_t *n,
                struct atoll_multipart_event *ret)
{
    bool wanted = m->state == ATOLL_MP_DATA;

    while (*n > 0) {
        const uint8_t *start = *p, *cr;
        size_t len;
        if (m->matched > 0 && **p == (uint8_t)m->delimiter[m->matched]) {
            (*p)++, (*n)--;
            if (++m->matched < m->delimiter_len)
                continue;
            m->matched = 0;
            m->after = '\0';
            m->state = ATOLL_MP_DELIMITER;
            *ret = (struct atoll_multipart_event){.kind = ATOLL_PART_END};
            return wanted;
        }
        /* Not a delimiter. Only its first byte is a CR, so no other delimiter began in it. */
        if (m->matched > 0) {
            len = m->matched;
            m->matched = 0;
            *ret = (struct atoll_multipart_event){
                .kind = ATOLL_PART_DATA, .data = (const uint8_t *)m->delimiter, .len = len};
            if (wanted)
                return 1;
            continue;
        }
        cr = memchr(start, '\r', *n);
        len = cr ? (size_t)(cr - start) : *n;
        *p += len, *n -= len;
        if (cr) {
            (*p)++, (*n)--;
            m->matched = 1;
        }
        *ret = (struct atoll_multipart_event){.kind = ATOLL_PART_DATA, .data = start, .len = len};
        if (wanted && len > 0)
            return 1;
    }
    return 0;
}

/* After a delimiter: "--" ends the body, CR LF begins the head of the next part. */
static int after_delimiter(struct atoll_multipart *m, uint8_t c, struct atoll_multipart_event *ret)
{
    if (c == '-' && m->after == '-') {
        m->state = ATOLL_MP_OVER;
        *ret = (struct atoll_multipart_event){.kind = ATOLL_MULTIPART_END};
        return 1;
    }
    if (c == '\n' && m->after == '\r') {
        m->state = ATOLL_MP_HEAD;
        m->head_len = 0;
        return 0;
    }
    if (m->after != '\0')
        return -EBADMSG;
    if (c == '-' || c == '\r')
        m->after = (char)c;
    else if (c != ' ' && c != '\t')
        return -EBADMSG;
    return 0;
}

static void parse_head(struct atoll_multipart *m)
{
    static const char wanted[] = "content-disposition:";
    char *line = m->head, *copy;
    size_t n;

    m->name = m->filename = NULL;
    while (*line) {
        n = strcspn(line, "\r\n");
        if (strncasecmp(line, wanted, sizeof(wanted) - 1) == 0)
            break;
        line += n + strspn(line + n, "\r\n");
    }
    if (!*line)
        return;
    line[strcspn(line, "\r\n")] = '\0';
    /* find_parameter() modifies the text: the second lookup uses a copy, which is placed behind
     * the line if there is room. */
    n = strlen(line) + 1;
    copy = line + n + n <= m->head + sizeof(m->head) ? line + n : NULL;
    if (copy)
        memcpy(copy, line, n);
    m->filename = find_parameter(line, "filename");
    m->name = copy ? find_parameter(copy, "name") : NULL;
}

static int take_head(struct atoll_multipart *m, uint8_t c)
{
    const char *end;

    if (c == '\0')
        return -EBADMSG;
    /* The other half is for the copy in parse_head(). */
    if (m->head_len >= ATOLL_MULTIPART_HEAD_MAX / 2)
        return -E2BIG;
    m->head[m->head_len++] = (char)c;
    m->head[m->head_len] = '\0';
    end = m->head + m->head_len;
    if (c != '\n' || !((m->head_len == 2 && m->head[0] == '\r') ||
                       (m->head_len >= 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0)))
        return 0;
    parse_head(m);
    m->state = ATOLL_MP_DATA;
    m->matched = 0;
    return 1;
}

int atoll_multipart_next(struct atoll_multipart *m, const uint8_t **p, size_t *n,
                         struct atoll_multipart_event *ret)
{
    int r = 0;

    while (*n > 0 && r == 0) {
        switch (m->state) {
        case ATOLL_MP_PREAMBLE:
        case ATOLL_MP_DATA:
            r = scan(m, p, n, ret);
            break;
        case ATOLL_MP_DELIMITER:
            r = after_delimiter(m, **p, ret);
            (*p)++, (*n)--;
            break;
        case ATOLL_MP_HEAD:
            r = take_head(m, **p);
            (*p)++, (*n)--;
            if (r > 0)
                *ret = (struct atoll_multipart_event){.kind = ATOLL_PART_BEGIN,
                                                      .name = m->name ? m->name : "",
                                                      .filename = m->filename};
            break;
        case ATOLL_MP_OVER:
            *p += *n;
            *n = 0;
            break;
        }
    }
    return r;
}
