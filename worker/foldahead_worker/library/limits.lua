#!lua name=foldahead_limits
-- version: 1
--
-- What all workers know of a provider's account: whether it answers (breaker), and how much it may be asked a
-- minute (buckets, learned from its responses). One hash an account and model; Redis's clock is the only clock.
-- docs/wire.md has every call.

local WIRE = '1'
local TTL_S = 24 * 3600
local STOP_TTL_S = 30 * 24 * 3600
local FAILURES_TO_OPEN = 5
local FAILURES_WITHIN_MS = 60 * 1000
local FIRST_OPEN_MS = 5 * 1000
local LONGEST_OPEN_MS = 5 * 60 * 1000
local LIMITED_MS = 15 * 1000 -- after a 429 that does not say for how long
local PROBE_LOOK_MS = 2 * 1000 -- how soon whoever was refused for a probe may ask again
local RAMP_MS = 10 * 1000 -- after an outage: 2, 4, 8 ... calls in the first seconds, then all
local SLOT_MS = 50 -- who is refused is sent away for a little longer than the one before
local SLOTS = 200
local BUCKETS = { 'requests', 'input', 'output' }

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function read(key)
  local flat = redis.call('HGETALL', key)
  local fields = {}
  for at = 1, #flat, 2 do
    fields[flat[at]] = tonumber(flat[at + 1])
  end
  return fields
end

local function wrong_version(args)
  if args[1] ~= WIRE then
    return redis.error_reply('FOLDWIRE wire version ' .. tostring(args[1]) .. ': the server side speaks '
      .. WIRE .. '; upgrade the older side')
  end
end

local function refused(key, wait_ms, why)
  local slot = redis.call('HINCRBY', key, 'refused', 1) % SLOTS
  redis.call('EXPIRE', key, TTL_S)
  return { 0, math.ceil(wait_ms) + slot * SLOT_MS, why }
end

local function refilled(fields, name, now)
  local limit = fields[name .. ':limit']
  if not limit then
    return nil
  end
  local level = fields[name .. ':level'] or limit
  local since = math.max(0, now - (fields[name .. ':at_ms'] or now))
  return math.min(limit, level + limit * since / 60000)
end

-- args: version, calls, input tokens, output tokens, probe_ms. Answers {granted, wait_ms, why}; a granted `probe`
-- is the one call that finds out whether the account answers again.
local function admit(keys, args)
  local wrong = wrong_version(args)
  if wrong then return wrong end
  local key, now, fields = keys[1], now_ms(), read(keys[1])
  local wanted = { requests = tonumber(args[2]), input = tonumber(args[3]), output = tonumber(args[4]) }
  if fields.until_ms then
    if now < fields.until_ms then
      return refused(key, fields.until_ms - now, 'open')
    end
    if (fields.probe_until_ms or 0) > now then
      return refused(key, math.min(PROBE_LOOK_MS, fields.probe_until_ms - now), 'probing')
    end
    redis.call('HSET', key, 'probe_until_ms', now + tonumber(args[5]))
    redis.call('EXPIRE', key, TTL_S)
    return { 1, 0, 'probe' }
  end
  if fields.ramp_ms then
    local since = math.max(0, now - fields.ramp_ms)
    if since >= RAMP_MS then
      redis.call('HDEL', key, 'ramp_ms', 'ramp_count')
    elseif (fields.ramp_count or 0) >= 2 ^ (math.floor(since / 1000) + 1) then
      return refused(key, 1000 - since % 1000, 'ramp')
    else
      redis.call('HINCRBY', key, 'ramp_count', wanted.requests)
    end
  end
  local wait, levels = 0, {}
  for _, name in ipairs(BUCKETS) do
    local level = refilled(fields, name, now)
    if level then
      local need = math.min(wanted[name], fields[name .. ':limit'])
      if level < need then
        wait = math.max(wait, (need - level) * 60000 / fields[name .. ':limit'])
      end
      levels[name] = level - need
    end
  end
  if wait > 0 then
    return refused(key, wait, 'rate')
  end
  for name, level in pairs(levels) do
    redis.call('HSET', key, name .. ':level', level, name .. ':at_ms', now)
  end
  redis.call('EXPIRE', key, TTL_S)
  return { 1, 0, '' }
end

local function learn(key, fields, args, first, now)
  for at = first, #args, 3 do
    local name, limit, remaining = args[at], tonumber(args[at + 1]), tonumber(args[at + 2])
    local level = math.min(refilled(fields, name, now) or limit, limit, remaining)
    redis.call('HSET', key, name .. ':limit', limit, name .. ':level', level, name .. ':at_ms', now)
  end
end

local function open(key, fields, now)
  local times = fields.opened or 0
  local length = math.min(LONGEST_OPEN_MS, FIRST_OPEN_MS * 2 ^ times)
  redis.call('HSET', key, 'until_ms', now + length, 'opened', times + 1)
  redis.call('HDEL', key, 'probe_until_ms', 'failures', 'ramp_ms', 'ramp_count')
end

local function failed(key, fields, now)
  if fields.until_ms then
    if now >= fields.until_ms then
      open(key, fields, now)
    end
    return
  end
  local recent = now - (fields.failed_ms or 0) < FAILURES_WITHIN_MS
  local failures = (recent and fields.failures or 0) + 1
  redis.call('HSET', key, 'failures', failures, 'failed_ms', now)
  if failures >= FAILURES_TO_OPEN then
    open(key, fields, now)
  end
end

local function answered(key, fields, now)
  redis.call('HDEL', key, 'failures')
  if not fields.until_ms then
    return
  end
  if now >= fields.until_ms then
    redis.call('HDEL', key, 'until_ms', 'probe_until_ms', 'opened', 'refused')
    redis.call('HSET', key, 'ramp_ms', now, 'ramp_count', 0)
  end
end

local function limited(key, fields, retry_after_ms, now)
  local wait = retry_after_ms > 0 and retry_after_ms or LIMITED_MS
  redis.call('HSET', key, 'until_ms', math.max(fields.until_ms or 0, now + wait))
  redis.call('HDEL', key, 'probe_until_ms', 'ramp_ms', 'ramp_count')
end

-- args: version, what came of a call (answered, failed, limited, given_up), retry_after_ms, then name, limit a
-- minute and what is left of it for each bucket that the response told of.
local function report(keys, args)
  local wrong = wrong_version(args)
  if wrong then return wrong end
  local key, now, fields = keys[1], now_ms(), read(keys[1])
  local outcome, retry_after_ms = args[2], tonumber(args[3])
  if outcome == 'answered' then
    answered(key, fields, now)
  elseif outcome == 'failed' then
    failed(key, fields, now)
  elseif outcome == 'limited' then
    limited(key, fields, retry_after_ms, now)
  else
    redis.call('HDEL', key, 'probe_until_ms')
  end
  learn(key, fields, args, 4, now)
  redis.call('EXPIRE', key, TTL_S)
  return redis.status_reply('OK')
end

-- args: version, workspace, account, reason. 1 when this is the first to say so for that account.
local function stop(keys, args)
  local wrong = wrong_version(args)
  if wrong then return wrong end
  local key, workspace, account = keys[1], args[2], args[3]
  local said = redis.call('HGET', key, workspace)
  redis.call('HSET', key, workspace, account .. ' ' .. args[4])
  redis.call('EXPIRE', key, STOP_TTL_S)
  return (said and string.sub(said, 1, #account + 1) == account .. ' ') and 0 or 1
end

redis.register_function('fold_admit', admit)
redis.register_function('fold_report', report)
redis.register_function('fold_stop', stop)
