-- SPDX-License-Identifier: MIT OR Apache-2.0
local function digest(text)
  local sum = 0
  for i = 1, #text do sum = (sum * 31 + text:byte(i)) % 65521 end
  return sum
end
local function sorted(count)
  local all = {}
  for i = 1, count do all[i] = i * 7919 % 10007 end
  table.sort(all, function(a, b) return a < b end)
  return all
end
local function walk(node) return node and node.value + walk(node.left) + walk(node.right) or 0 end
local function tree(depth) return depth > 0 and {value = depth, left = tree(depth - 1), right = tree(depth - 1)} or nil end
local function serve(round)
  return digest("request " .. round .. (" of many "):rep(200)) + sorted(2000)[round % 2000 + 1] + walk(tree(12))
end
local function program()
  local from, sum, round = os.clock(), 0, 0
  while os.clock() - from < 3 do
    sum, round = sum + serve(round), round + 1
  end
  return sum
end
print(program() > 0 and "true" or "false")
