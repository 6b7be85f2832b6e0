#!lua name=foldahead
-- version: 1
--
-- The state of sessions in Redis, and the only code that writes it. docs/wire.md has every call's keys, arguments
-- and reply. Redis's own clock is the only clock; nothing written here outlives SESSION_TTL_S unless it is renewed.
-- A command costs as much as all the Lua around it: a publish of counts alone makes five.
-- Nothing is believed here: heads are compared, never proved. Who spends money on a body checks its chain.

local WIRE = '1'
local SESSION_TTL_S = 7 * 24 * 3600
local RENEW_MS = 3600 * 1000 -- the TTL of a session's keys is set anew at most so often
local RESTORE_TTL_S = 3600
local HINT_TTL_S = 60
local JOB_RECHECK_MS = 60 * 1000 -- a job not heard of for so long is looked at again: a lost step repeats itself
local MAX_BODY = 8 * 1024 * 1024
local MAX_PUBLISH = 64 * 1024 * 1024
local MAX_SESSION = 256 * 1024 * 1024
local MAX_BODIES = 100000
local MAX_RECORD = 256 * 1024
local MAX_RECORDS = 10000
local MAX_EVENT = 16 * 1024
local MAX_STANDING = 256 * 1024 -- the policy in it holds instructions of any length
local MAX_READY = 1024 * 1024
local MAX_READY_ENTRIES = 8
local MAX_ENVELOPE = 1024 * 1024
local MAX_NAME = 512 -- of a workspace and of a session, before it is percent-encoded
local MAX_ARMED = 1000000 -- of one shard
local MAX_RESTORES = 10000
local MAX_INBOX = 100000
local HEAD = 32
local FIXED = 18 -- arguments of fold_publish before its lists
local BATCH = 500

local function refuse(why)
  return redis.error_reply('FOLDREFUSED ' .. why)
end

local function wrong_version(args)
  if args[1] ~= WIRE then
    return redis.error_reply('FOLDWIRE wire version ' .. tostring(args[1]) .. ': the server side speaks '
      .. WIRE .. '; upgrade the older side')
  end
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function whole(number)
  return string.format('%.0f', number)
end

local function field(state, name)
  return redis.call('HGET', state, name) or ''
end

local function fields(state, names)
  local found, values = {}, redis.call('HMGET', state, unpack(names))
  for at, name in ipairs(names) do
    found[name] = values[at]
  end
  return found
end

local function too_long(name)
  return #name > MAX_NAME and #string.gsub(name, '%%%x%x', '.') > MAX_NAME
end

local function bad_name(member)
  local workspace, session = string.match(member, '^([^/]*)/([^/]*)$')
  if not workspace then
    return refuse('malformed: a member is workspace/session, each percent-encoded')
  elseif too_long(workspace) or too_long(session) then
    return refuse('name too long: a workspace and a session have at most ' .. MAX_NAME .. ' bytes each')
  end
end

-- The revision starts at the clock, so that a caller's old one never equals a new one after a restart.
local function revise(state)
  if redis.call('HEXISTS', state, 'rev') == 0 then
    redis.call('HSET', state, 'rev', whole(now_ms() * 1000))
  end
  redis.call('HINCRBY', state, 'rev', 1)
end

local function keep_alive(keys, count)
  for at = 1, count do
    redis.call('EXPIRE', keys[at], SESSION_TTL_S)
  end
end

-- Records ---------------------------------------------------------------------------------------------------

-- The place of the next record. Places start at the clock, so that what is new after a loss of Redis's memory comes
-- behind what the database kept from before.
local function next_place(state)
  return math.max((tonumber(field(state, 'place')) or 0) + 1, now_us())
end

local function note_records(state, mark, last)
  redis.call('HSET', state, 'mark', mark, 'place', whole(last))
  revise(state)
end

-- Appends what is not there yet; returns the identities of what was new.
local function add_records(state, records, pairs_)
  local mark, first, added = field(state, 'mark'), next_place(state), {}
  for at = 1, #pairs_, 2 do
    local id, json = pairs_[at], pairs_[at + 1]
    if redis.call('HSETNX', records, id, whole(first + #added) .. ':' .. json) == 1 then
      mark = redis.sha1hex(mark .. id)
      added[#added + 1] = id
    end
  end
  if #added > 0 then
    note_records(state, mark, first + #added - 1)
  end
  return added
end

-- Unites records with what the database kept, whose places hold: triples of id, place and json.
local function restore_records(state, records, triples)
  local mark, last, changed = field(state, 'mark'), tonumber(field(state, 'place')) or 0, false
  for at = 1, #triples, 3 do
    local id, entry = triples[at], triples[at + 1] .. ':' .. triples[at + 2]
    if redis.call('HGET', records, id) ~= entry then
      redis.call('HSET', records, id, entry)
      mark, changed = redis.sha1hex(mark .. id .. triples[at + 1]), true
      last = math.max(last, tonumber(triples[at + 1]))
    end
  end
  if changed then
    note_records(state, mark, last)
  end
end

local function report(inbox, member, kind, id, data)
  redis.call('XADD', inbox, 'MAXLEN', '~', MAX_INBOX, '*', 'kind', kind, 'member', member, 'id', id, 'data', data)
  redis.call('EXPIRE', inbox, SESSION_TTL_S)
end

-- Events carry a number that grows within an incarnation: one that was sent twice is reported once.
local function add_events(state, inbox, member, incarnation, events)
  local seen = redis.call('HMGET', state, 'events_inc', 'events_n')
  local last = seen[1] == incarnation and tonumber(seen[2]) or 0
  for at = 1, #events, 2 do
    local number = tonumber(events[at])
    if number > last then
      report(inbox, member, 'event', incarnation .. ':' .. events[at], events[at + 1])
      last = number
    end
  end
  redis.call('HSET', state, 'events_inc', incarnation, 'events_n', whole(last))
end

-- Bodies: list elements are 32 bytes of head after the message, 8 bytes of size so far, a flag, the body. ---------

local function element_head(bodies, at)
  local element = redis.call('LINDEX', bodies, at)
  return element and string.sub(element, 1, HEAD)
end

local function head_at(state, bodies, count, at)
  if at == 0 then
    return field(state, 'first_head')
  elseif at == count then
    return field(state, 'end_head')
  end
  return element_head(bodies, at - 1)
end

local function size_at(state, bodies, count, at)
  if at == 0 then
    return 0
  elseif at == count then
    return tonumber(field(state, 'bytes')) or 0
  end
  return struct.unpack('>I8', redis.call('LINDEX', bodies, at - 1), HEAD + 1)
end

local function cut_bodies(bodies, count, from)
  if from == 0 then
    redis.call('UNLINK', bodies)
  elseif from < count then
    redis.call('LTRIM', bodies, 0, from - 1)
  end
end

local function push_bodies(bodies, triples, size)
  local batch = {}
  for at = 1, #triples, 3 do
    local body = triples[at + 2]
    size = size + #body
    batch[#batch + 1] = triples[at] .. struct.pack('>I8', size) .. triples[at + 1] .. body
    if #batch == BATCH then
      redis.call('RPUSH', bodies, unpack(batch))
      batch = {}
    end
  end
  if #batch > 0 then
    redis.call('RPUSH', bodies, unpack(batch))
  end
  return size
end

-- Takes a run of bodies where it goes on from what is stored. Returns a refusal, or nothing.
local function add_bodies(state, bodies, from, head_before, triples)
  local count = redis.call('LLEN', bodies)
  if from > count or (from > 0 and head_at(state, bodies, count, from) ~= head_before) then
    return
  end
  local upto, last_head = from + #triples / 3, triples[#triples - 2]
  if upto <= count and head_at(state, bodies, count, upto) == last_head then
    return
  end
  local size = size_at(state, bodies, count, from)
  for at = 3, #triples, 3 do
    size = size + #triples[at]
  end
  if upto > MAX_BODIES then
    return refuse('too many bodies in the session: ' .. upto .. ' of at most ' .. MAX_BODIES)
  elseif size > MAX_SESSION then
    return refuse('bodies of the session too large: ' .. whole(size) .. ' bytes of at most ' .. MAX_SESSION)
  end
  local before = size_at(state, bodies, count, from)
  cut_bodies(bodies, count, from)
  if from == 0 then
    redis.call('HSET', state, 'first_head', head_before)
  end
  local bytes = push_bodies(bodies, triples, before)
  redis.call('HSET', state, 'end_head', last_head, 'bytes', whole(bytes))
end

-- Index from which bodies are wanted, '' for none. Anchors are {index, head, ...} of the caller's history.
local function wanted(state, bodies, messages, head, anchors)
  local count = redis.call('LLEN', bodies)
  if messages == 0 or count >= messages and head_at(state, bodies, count, messages) == head then
    return ''
  end
  local best = 0
  for at = 1, #anchors, 2 do
    local index = tonumber(anchors[at])
    if index > best and index <= count and head_at(state, bodies, count, index) == anchors[at + 1] then
      best = index
    end
  end
  return whole(best)
end

-- What is armed -------------------------------------------------------------------------------------------------

local WANTS = { 'due', 'job', 'job_at', 'urgent', 'job_urgent' }

-- Whether a session wants the watcher's look: it wants work, and no job has it, or the job must hurry from now on,
-- or the job has not been heard of for long. `seen` has the fields of WANTS.
local function wants(seen, now)
  if not seen.due or seen.due == '' then
    return false
  elseif not seen.job or seen.job == '' then
    return true
  end
  return (seen.urgent == '1' and seen.job_urgent ~= '1') or now - (tonumber(seen.job_at) or 0) > JOB_RECHECK_MS
end

local function arm(seen, armed, member, now)
  if not wants(seen, now) then
    redis.call('ZREM', armed, member)
  elseif redis.call('ZCARD', armed) < MAX_ARMED or redis.call('ZSCORE', armed, member) then
    redis.call('ZADD', armed, whole(now + tonumber(seen.due)), member)
    redis.call('EXPIRE', armed, SESSION_TTL_S)
  end
end

-- Replies ---------------------------------------------------------------------------------------------------

local function news_of_ready(ready, known)
  local entries = redis.call('HGETALL', ready)
  if #entries == 0 then
    return entries
  end
  local news = {}
  local has = {}
  for _, key in ipairs(known) do
    has[key] = true
  end
  for at = 1, #entries, 2 do
    if not has[entries[at]] then
      news[#news + 1] = string.match(entries[at + 1], '^%d+:(.*)$')
    end
  end
  return news
end

local TOLD = { 'rev', 'job', 'failed', 'mark' }

-- {known, rev, wanted, job, failed, overrides, mark, records or '' (the caller knows them), ready, standing, idle ms}
-- `told` has the fields of TOLD. Standing and idle time are for a caller that has nothing of the session.
local function answer(told, ready, records, policies, member, ask)
  local mark = told.mark or ''
  return {
    1, told.rev or '0', ask.wanted or '', told.job or '', told.failed or '',
    redis.call('HGET', policies, string.match(member, '^[^/]*')) or '', mark,
    mark ~= ask.mark and redis.call('HVALS', records) or '',
    news_of_ready(ready, ask.ready), ask.standing or '', ask.idle or '0',
  }
end

-- fold_publish ----------------------------------------------------------------------------------------------

local function slice(args, from, count)
  local part = {}
  for at = from, from + count - 1 do
    part[#part + 1] = args[at]
  end
  return part, from + count
end

-- Behind the fixed arguments; the last of those say how many entries each has. Name, arguments an entry.
local LISTS = { { 'bodies', 3 }, { 'records', 2 }, { 'events', 2 }, { 'ready', 1 }, { 'anchors', 2 } }
local NO_LISTS = { bodies = {}, records = {}, events = {}, ready = {}, anchors = {} }

local function has_lists(args)
  for at = FIXED - #LISTS + 1, FIXED do
    if args[at] ~= '0' then
      return true
    end
  end
  return #args ~= FIXED
end

-- The lists by name, or nothing when their lengths do not add up.
local function lists(args)
  if not has_lists(args) then
    return NO_LISTS
  end
  local given, at = {}, FIXED + 1
  for index, list in ipairs(LISTS) do
    local size = (tonumber(args[FIXED - #LISTS + index]) or -1) * list[2]
    if size < 0 or size % list[2] ~= 0 or at + size > #args + 1 then
      return
    end
    given[list[1]], at = slice(args, at, size)
  end
  return at == #args + 1 and given or nil
end

local function too_large(items, step, offset, limit, name)
  for at = offset, #items, step do
    if #items[at] > limit then
      return refuse(name .. ' too large: ' .. #items[at] .. ' bytes of at most ' .. limit)
    end
  end
end

local function bad_bodies(triples)
  for at = 1, #triples, 3 do
    if #triples[at] ~= HEAD or #triples[at + 1] ~= 1 then
      return refuse('malformed body: expected a head of ' .. HEAD .. ' bytes and a flag of one')
    end
  end
  return too_large(triples, 3, 3, MAX_BODY, 'body')
end

local NUMBERS = { 4, 6, 8, 12 }

local function bad_numbers(args)
  for _, at in ipairs(NUMBERS) do
    local number = tonumber(args[at])
    local may_be_empty = (at == 8 or at == 12) and args[at] == ''
    if not may_be_empty and not (number and number >= 0 and number < 2 ^ 53 and number % 1 == 0) then
      return refuse('malformed: argument ' .. at .. ' is no whole number')
    end
  end
end

-- Looks at a whole publish before anything is written: nothing is undone in Redis.
local function bad_publish(keys, args, given)
  if #keys ~= 8 or not given then
    return refuse('malformed: fold_publish takes 8 keys and arguments as docs/wire.md says')
  end
  local total = 0
  for at = 1, #args do
    total = total + #args[at]
  end
  if total > MAX_PUBLISH then
    return refuse('publish too large: ' .. whole(total) .. ' bytes of at most ' .. MAX_PUBLISH)
  elseif #args[3] > 64 or #args[5] > MAX_STANDING then
    return refuse('incarnation or standing too large')
  elseif #given.records > 0 and redis.call('HLEN', keys[4]) + #given.records / 2 > MAX_RECORDS then
    return refuse('too many records in the session: at most ' .. MAX_RECORDS)
  end
  return bad_name(args[2]) or bad_numbers(args) or bad_bodies(given.bodies)
    or too_large(given.records, 2, 2, MAX_RECORD, 'record') or too_large(given.events, 2, 2, MAX_EVENT, 'event')
end

-- All that a publish has to know of the state, in one command and one table: both cost.
local function read_for_publish(state)
  local seen = redis.call('HMGET', state,
    'rev', 'inc', 'n', 'due', 'job', 'job_at', 'job_urgent', 'failed', 'mark', 'kept_ms')
  return {
    rev = seen[1], inc = seen[2], n = seen[3], due = seen[4], job = seen[5], job_at = seen[6], job_urgent = seen[7],
    failed = seen[8], mark = seen[9], kept_ms = seen[10],
  }
end

-- Wakes a watcher that has nothing to do. One word is enough for any number of sessions, and it may be lost: watchers
-- look from time to time all the same.
local function hint(seen, hints, now)
  if wants(seen, now) and tonumber(seen.due) == 0 and redis.pcall('LLEN', hints) == 0 then
    redis.call('RPUSH', hints, '1')
    redis.call('EXPIRE', hints, HINT_TTL_S)
  end
end

local function apply(keys, args, seen, now)
  redis.call('HSET', keys[1], 'inc', args[3], 'n', args[4], 'standing', args[5], 'messages', args[6], 'head', args[7],
    'due', args[8], 'urgent', args[9], 'upload', args[10], 'at_ms', whole(now))
  local wanted_nothing = seen.due == '' and args[8] == ''
  seen.due, seen.urgent = args[8], args[9]
  if not wanted_nothing then -- what wants nothing is in no armed set
    arm(seen, keys[5], args[2], now)
  end
end

-- Keys that were made just now need their TTL, the others have it renewed once in a while.
local function renew(keys, seen, given, now)
  local ago = now - (tonumber(seen.kept_ms) or 0)
  if ago < 0 or ago >= RENEW_MS or #given.bodies + #given.records > 0 then
    redis.call('HSET', keys[1], 'kept_ms', whole(now))
    keep_alive(keys, 4)
  end
end

local function take_records(keys, member, given, known_mark)
  local knew_all = field(keys[1], 'mark') == known_mark
  for _, id in ipairs(add_records(keys[1], keys[4], given)) do
    report(keys[6], member, 'record', id, '')
  end
  return knew_all and field(keys[1], 'mark') or known_mark
end

local function publish(keys, args)
  local given = lists(args)
  local bad = wrong_version(args) or bad_publish(keys, args, given)
  if bad then
    return bad
  end
  local state, bodies, member, incarnation = keys[1], keys[2], args[2], args[3]
  local now, known_mark, seen, refused = now_ms(), args[11], read_for_publish(state), nil
  if not (seen.inc == incarnation and tonumber(args[4]) <= tonumber(seen.n)) then -- else it is old news
    apply(keys, args, seen, now)
    if #given.bodies > 0 then
      refused = add_bodies(state, bodies, tonumber(args[12]), args[13], given.bodies)
    end
  end
  if #given.records > 0 then
    known_mark = take_records(keys, member, given.records, known_mark)
  end
  if #given.events > 0 then
    add_events(state, keys[6], member, incarnation, given.events)
  end
  if not seen.rev then
    revise(state)
  end
  renew(keys, seen, given, now)
  if refused then
    return refused
  end
  local missing = args[10] == '1' and wanted(state, bodies, tonumber(args[6]), args[7], given.anchors) or ''
  local changed = not seen.rev or #given.records > 0
  local told = answer(changed and fields(state, TOLD) or seen, keys[3], keys[4], keys[7], member, {
    wanted = missing, mark = known_mark, ready = given.ready,
  })
  if args[8] ~= '' and #told[9] > 0 then -- who hears of a summary just now says anew whether it wants another
    redis.call('ZREM', keys[5], member)
  elseif missing == '' then -- else a worker would come before the bodies, and the call that brings them leaves the hint
    hint(seen, keys[8], now)
  end
  return told
end

-- The other calls of an agent -----------------------------------------------------------------------------------

local LOOK_READS = { 'rev', 'job', 'failed', 'mark', 'upload', 'messages' }
local RESUME_READS = { 'rev', 'job', 'failed', 'mark', 'standing', 'at_ms' }

-- KEYS state bodies ready records policies; ARGV version member rev mark ready-key...
local function look(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  end
  local state, bodies = keys[1], keys[2]
  local rev = redis.call('HGET', state, 'rev')
  if not rev then
    return { 0 }
  elseif rev == args[3] then
    return {}
  end
  local seen = fields(state, LOOK_READS)
  local gone = seen.upload == '1' and tonumber(seen.messages) > 0 and redis.call('LLEN', bodies) == 0
  return answer(seen, keys[3], keys[4], keys[5], args[2],
    { wanted = gone and '0' or '', mark = args[4], ready = slice(args, 5, #args - 4) })
end

-- KEYS state ready records policies restore; ARGV version member
local function resume(keys, args)
  local bad = wrong_version(args) or bad_name(args[2])
  if bad then
    return bad
  end
  local state, ready, records, policies, restore = unpack(keys)
  if redis.call('EXISTS', state) == 0 then
    if redis.call('SCARD', restore) < MAX_RESTORES then
      redis.call('SADD', restore, args[2])
      redis.call('EXPIRE', restore, RESTORE_TTL_S)
    end
    return { 0 }
  end
  local seen = fields(state, RESUME_READS)
  local idle = seen.at_ms and whole(now_ms() - tonumber(seen.at_ms))
  return answer(seen, ready, records, policies, args[2],
    { mark = false, ready = {}, standing = seen.standing, idle = idle })
end

-- KEYS state bodies ready records armed restore inbox; ARGV version member
-- The word to forget says where it stands among records: whoever uses the name again keeps what comes after it.
local function forget(keys, args)
  local bad = wrong_version(args) or bad_name(args[2])
  if bad then
    return bad
  end
  local place = next_place(keys[1])
  redis.call('UNLINK', keys[1], keys[2], keys[3], keys[4])
  redis.call('ZREM', keys[5], args[2])
  redis.call('SREM', keys[6], args[2])
  report(keys[7], args[2], 'forget', '', whole(place))
  return 1
end

-- KEYS state armed inbox; ARGV version member incarnation
-- The session wants no work any more; what is known of it stays. An incarnation closes only what it published last,
-- '' whatever is there. Returns whether anything was closed.
local function close(keys, args)
  local bad = wrong_version(args) or bad_name(args[2])
  if bad then
    return bad
  end
  local incarnation = redis.call('HGET', keys[1], 'inc')
  if not incarnation or (args[3] ~= '' and args[3] ~= incarnation) then
    return 0
  end
  redis.call('HSET', keys[1], 'due', '', 'job', '')
  redis.call('HINCRBY', keys[1], 'ended', 1)
  revise(keys[1])
  redis.call('ZREM', keys[2], args[2])
  report(keys[3], args[2], 'close', '', '')
  return 1
end

-- What the requests of some sessions hold beside their messages, by its digest. KEYS envelope; ARGV version digest
-- bytes ('' asks whether it is there). Returns whether it is.
local function envelope(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  elseif #keys ~= 1 or #args ~= 3 or not string.find(keys[1], ':envelope:' .. args[2], 1, true) then
    return refuse('malformed: fold_envelope takes the key of an envelope, its digest and its bytes')
  elseif #args[3] > MAX_ENVELOPE then
    return refuse('envelope too large: ' .. #args[3] .. ' bytes of at most ' .. MAX_ENVELOPE)
  elseif args[3] ~= '' then
    redis.call('SET', keys[1], args[3], 'EX', SESSION_TTL_S)
    return 1
  end
  return redis.call('EXPIRE', keys[1], SESSION_TTL_S)
end

-- The calls of the server side ------------------------------------------------------------------------------------

local SETTLE_READS = { 'inc', 'n', 'due', 'job', 'job_at', 'urgent', 'job_urgent', 'ended' }

-- KEYS state ready armed; ARGV version member incarnation n action value urgent ended
-- action: job (value: cache key), wait (value: ms), drop. Returns whether the state is still the one that was seen.
-- A job that ended while it was settled would be waited for in vain: where anything ended since the session was seen,
-- no job is noted, and the session stays armed for another look.
local function settle(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  end
  local state, ready, armed, member, action, value = keys[1], keys[2], keys[3], args[2], args[5], args[6]
  if redis.call('EXISTS', state) == 0 then
    redis.call('ZREM', armed, member)
    return 0
  end
  local seen, now = fields(state, SETTLE_READS), now_ms()
  local same = seen.inc == args[3] and seen.n == args[4]
  if action == 'job' and (seen.ended or '') ~= args[8] then
    return same and 1 or 0
  elseif action == 'job' then
    if redis.call('HEXISTS', ready, value) == 0 then
      seen.job, seen.job_at, seen.job_urgent = value, now, args[7]
      redis.call('HSET', state, 'job', value, 'job_at', whole(now), 'job_urgent', args[7], 'failed', '')
      revise(state)
    end
    if same or not wants(seen, now) then
      redis.call('ZREM', armed, member)
    end
  elseif same and action == 'wait' and seen.due ~= '' then
    redis.call('ZADD', armed, whole(now + tonumber(value)), member)
  elseif same then
    redis.call('ZREM', armed, member)
  end
  return same and 1 or 0
end

-- Keeps the entries that end last: those that end first stand for the least.
local function drop_shortest(ready, newest)
  while redis.call('HLEN', ready) > MAX_READY_ENTRIES do
    local entries, shortest, least = redis.call('HGETALL', ready), nil, nil
    for at = 1, #entries, 2 do
      local ends_at = tonumber(string.match(entries[at + 1], '^%d+'))
      if entries[at] ~= newest and (not least or ends_at < least) then
        shortest, least = entries[at], ends_at
      end
    end
    redis.call('HDEL', ready, shortest)
  end
end

-- KEYS state ready; ARGV version cache_key end blob. Returns 0 where the session is not known.
local function make_ready(keys, args)
  local bad = wrong_version(args) or too_large(args, 4, 4, MAX_READY, 'summary')
  if bad then
    return bad
  end
  local state, ready, key = keys[1], keys[2], args[2]
  if redis.call('EXISTS', state) == 0 then
    return 0
  end
  redis.call('HSET', ready, key, args[3] .. ':' .. args[4])
  drop_shortest(ready, key)
  if field(state, 'job') == key then
    redis.call('HSET', state, 'job', '', 'failed', '')
  end
  redis.call('HDEL', state, 'failures', 'failed_at')
  revise(state)
  redis.call('PEXPIRE', ready, redis.call('PTTL', state))
  return 1
end

-- KEYS state bodies armed; ARGV version cache_key reason counts member
-- Failures that count are counted in a row: the watcher waits longer after each. Bodies that came while their job was
-- under way, and too late for it, are news that nobody else tells the watcher of.
local function failed(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  end
  if redis.call('EXISTS', keys[1]) == 0 then
    return 0
  end
  redis.call('HINCRBY', keys[1], 'ended', 1)
  if field(keys[1], 'job') ~= args[2] then
    return 0
  end
  redis.call('HSET', keys[1], 'job', '', 'failed', args[3])
  if args[4] == '1' then
    redis.call('HINCRBY', keys[1], 'failures', 1)
    redis.call('HSET', keys[1], 'failed_at', whole(now_ms()))
  end
  local messages = tonumber(field(keys[1], 'messages')) or 0
  if args[3] == 'needs_bodies' and messages > 0 and redis.call('LLEN', keys[2]) >= messages then
    arm(fields(keys[1], WANTS), keys[3], args[5], now_ms())
  end
  revise(keys[1])
  return 1
end

-- KEYS state bodies; ARGV version. The agent is asked for all of them again.
local function discard(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  end
  if redis.call('EXISTS', keys[1]) == 0 then
    return 0
  end
  redis.call('UNLINK', keys[2])
  redis.call('HDEL', keys[1], 'first_head', 'end_head', 'bytes')
  revise(keys[1])
  return 1
end

-- KEYS state ready records restore; ARGV version member standing failures failed-ms-ago ready-count records-count, then
-- (cache key, end, blob)... (id, place, json)... A session that lives keeps its own standing; records are united.
local function restore(keys, args)
  local bad = wrong_version(args)
  if bad then
    return bad
  end
  local state, ready, records, ready_count, record_count = keys[1], keys[2], keys[3], tonumber(args[6]), tonumber(args[7])
  if #args ~= 7 + 3 * ready_count + 3 * record_count then
    return refuse('malformed: fold_restore takes arguments as docs/wire.md says')
  end
  local was_known = redis.call('EXISTS', state) == 1
  if not was_known and args[3] ~= '' then
    redis.call('HSET', state, 'standing', args[3])
  end
  if not was_known and tonumber(args[4]) > 0 then
    redis.call('HSET', state, 'failures', args[4], 'failed_at', whole(now_ms() - tonumber(args[5])))
  end
  local summaries, at = slice(args, 8, 3 * ready_count)
  for index = 1, #summaries, 3 do
    redis.call('HSETNX', ready, summaries[index], summaries[index + 1] .. ':' .. summaries[index + 2])
    drop_shortest(ready, '')
  end
  restore_records(state, records, (slice(args, at, 3 * record_count)))
  revise(state)
  redis.call('SREM', keys[4], args[2])
  keep_alive(keys, 3)
  return was_known and 0 or 1
end

redis.register_function('fold_publish', publish)
redis.register_function({ function_name = 'fold_look', callback = look, flags = { 'no-writes' } })
redis.register_function('fold_resume', resume)
redis.register_function('fold_forget', forget)
redis.register_function('fold_close', close)
redis.register_function('fold_settle', settle)
redis.register_function('fold_ready', make_ready)
redis.register_function('fold_envelope', envelope)
redis.register_function('fold_failed', failed)
redis.register_function('fold_discard', discard)
redis.register_function('fold_restore', restore)
