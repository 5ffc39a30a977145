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
local function walk(node)
  if node == nil then return 0 end
  return node.value + walk(node.left) + walk(node.right)
end
local function tree(depth)
  if depth == 0 then return nil end
  return { value = depth, left = tree(depth - 1), right = tree(depth - 1) }
end
local function serve(round)
  return digest("request " .. round .. (" of many "):rep(200)) + sorted(2000)[round % 2000 + 1] + walk(tree(12))
end
local function program()
  local stop, sum, round = os.clock() + 3, 0, 0
  while os.clock() < stop do
    sum = sum + serve(round)
    round = round + 1
  end
  return sum
end
print(program() > 0)
